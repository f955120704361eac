// The API server: the reference which the sandbox is compared with.
package main

import (
	"os"
	_ "time/tzdata" // time zones of CronJobs, wherever the machine has none

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	// Metrics and log formats register themselves when imported.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
