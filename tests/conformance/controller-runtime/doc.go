// Package controllerruntime pins the version of controller-runtime and the modules of its tests.
package controllerruntime
