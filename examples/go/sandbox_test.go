// Package example tests Kubernetes code on a sandbox in place of envtest:
//
//	kopf sandbox --simulate all -- go test ./...
package example

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// connect returns a client of the cluster in $KUBECONFIG.
func connect(t *testing.T) kubernetes.Interface {
	t.Helper()
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		t.Skipf("no cluster: run this test with 'kopf sandbox --simulate all -- go test ./...': %v", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestDeploymentBecomesAvailable(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	deployments := connect(t).AppsV1().Deployments("default")
	replicas := int32(2)
	labels := map[string]string{"app": "web"}
	_, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "go-web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "web", Image: "nginx"}},
				},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := deployments.Delete(ctx, "go-web", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		found, err := deployments.Get(ctx, "go-web", metav1.GetOptions{})
		return err == nil && found.Status.AvailableReplicas == replicas, err
	})
	if err != nil {
		t.Fatalf("the deployment does not become available: %v", err)
	}
}
