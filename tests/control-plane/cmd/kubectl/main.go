// The command-line client which users drive both servers with.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	// Credentials by cloud providers' plugins: not used here, but kubectl is
	// to be the same program as the published one.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		// Prints the error the way users know it, and exits.
		util.CheckErr(err)
	}
}
