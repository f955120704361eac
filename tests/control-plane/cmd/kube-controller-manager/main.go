// The controllers. Only the garbage collector and the namespace controller
// are switched on (see run.sh), because these two change what an operator
// sees of its own objects.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	// Metrics and log formats register themselves when imported.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
