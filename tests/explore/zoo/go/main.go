// Operators with controller-runtime. Each has one bug, which is on with -bug.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var (
	bug  = flag.Bool("bug", false, "turn on the bug")
	kind = flag.String("operator", "", "halves, once or finalizer")
)

const finalizer = "zoo.example.com/cleaning"

type reconciler struct{ client.Client }

func shop() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "zoo.example.com", Version: "v1", Kind: "Shop"})
	return object
}

// data is the content of the ConfigMap of a shop.
func data(shop *unstructured.Unstructured) map[string]string {
	found := map[string]string{}
	spec, _, _ := unstructured.NestedMap(shop.Object, "spec")
	for name, value := range spec {
		found[name] = fmt.Sprint(value)
	}
	return found
}

// ensure creates or changes a ConfigMap of a shop.
func (r *reconciler) ensure(ctx context.Context, shop *unstructured.Unstructured, name string, owned bool) error {
	object := &corev1.ConfigMap{}
	object.Name, object.Namespace = name, shop.GetNamespace()
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, object, func() error {
		object.Data = data(shop)
		object.Labels = map[string]string{"app": "shop"}
		if !owned {
			return nil
		}
		return controllerutil.SetControllerReference(shop, object, r.Scheme())
	})
	return err
}

// mark notes the size of a shop in its status.
func (r *reconciler) mark(ctx context.Context, shop *unstructured.Unstructured) error {
	size, _, _ := unstructured.NestedInt64(shop.Object, "spec", "size")
	patch := fmt.Sprintf(`{"status": {"size": %s}}`, strconv.FormatInt(size, 10))
	return r.Patch(ctx, shop, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

func isMarked(shop *unstructured.Unstructured) bool {
	size, _, _ := unstructured.NestedInt64(shop.Object, "spec", "size")
	marked, found, _ := unstructured.NestedInt64(shop.Object, "status", "size")
	return found && size == marked
}

// halves creates two ConfigMaps. Bug: the shop is marked as done between them.
func (r *reconciler) halves(ctx context.Context, shop *unstructured.Unstructured) error {
	if *bug && isMarked(shop) {
		return nil
	}
	if err := r.ensure(ctx, shop, shop.GetName()+"-a", true); err != nil {
		return err
	}
	if *bug {
		if err := r.mark(ctx, shop); err != nil {
			return err
		}
	}
	if err := r.ensure(ctx, shop, shop.GetName()+"-b", true); err != nil || *bug || isMarked(shop) {
		return err
	}
	return r.mark(ctx, shop)
}

// once creates a ConfigMap. Bug: it never changes it.
func (r *reconciler) once(ctx context.Context, shop *unstructured.Unstructured) error {
	name := shop.GetName() + "-map"
	if *bug {
		err := r.Get(ctx, client.ObjectKey{Namespace: shop.GetNamespace(), Name: name}, &corev1.ConfigMap{})
		if !errors.IsNotFound(err) {
			return err
		}
	}
	return r.ensure(ctx, shop, name, true)
}

// finalizer deletes a ConfigMap without an owner with its shop. Bug: the finalizer is removed first.
func (r *reconciler) finalizer(ctx context.Context, shop *unstructured.Unstructured) error {
	name := shop.GetName() + "-map"
	if shop.GetDeletionTimestamp() == nil {
		if controllerutil.AddFinalizer(shop, finalizer) {
			return r.Update(ctx, shop)
		}
		return r.ensure(ctx, shop, name, false)
	}
	release := func() error {
		if controllerutil.RemoveFinalizer(shop, finalizer) {
			return r.Update(ctx, shop)
		}
		return nil
	}
	if *bug {
		if err := release(); err != nil {
			return err
		}
	}
	object := &corev1.ConfigMap{}
	object.Name, object.Namespace = name, shop.GetNamespace()
	if err := client.IgnoreNotFound(r.Delete(ctx, object)); err != nil || *bug {
		return err
	}
	return release()
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := shop()
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch *kind {
	case "halves":
		return ctrl.Result{}, r.halves(ctx, object)
	case "once":
		return ctrl.Result{}, r.once(ctx, object)
	case "finalizer":
		return ctrl.Result{}, r.finalizer(ctx, object)
	}
	return ctrl.Result{}, nil
}

func run() error {
	flag.Parse()
	log.SetLogger(zap.New())
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}}},
	})
	if err != nil {
		return err
	}
	r := &reconciler{manager.GetClient()}
	builder := ctrl.NewControllerManagedBy(manager).For(shop())
	if *kind == "halves" || *kind == "once" {
		builder = builder.Owns(&corev1.ConfigMap{})
	}
	if err := builder.Complete(r); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
