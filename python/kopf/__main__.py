"""`python -m kopf`: the same as the command `kopf`."""

from kopf.cli import main

if __name__ == "__main__":
    main(prog_name="kopf")
