# Common functions of scripts with checks, to be sourced. The scripts define `explain`, which prints details
# of a failure.

passed=0
failed=0
# verdict NAME STATUS
verdict() {
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok      $1"
    else
        failed=$((failed + 1))
        echo "FAILED  $1"
        explain
    fi
}
# within SECONDS COMMAND…: repeats the command until it succeeds.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}
# end_of_log FILE: prints the last lines, indented.
end_of_log() { tail -n 15 "$1" | cut -c1-200 | sed 's/^/        | /'; }
# Prints the last line of a script and returns its result.
summary() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
