package dev.kopf.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Tests Kubernetes code on a sandbox: {@code kopf sandbox --simulate all -- mvn test}. */
class SandboxTest {
    @Test
    void deploymentBecomesAvailable() {
        assumeTrue(System.getenv("KUBECONFIG") != null, "run with: kopf sandbox --simulate all -- mvn test");
        Deployment deployment = new DeploymentBuilder()
            .withNewMetadata().withName("java-web").withNamespace("default").endMetadata()
            .withNewSpec()
                .withReplicas(2)
                .withNewSelector().withMatchLabels(Map.of("app", "web")).endSelector()
                .withNewTemplate()
                    .withNewMetadata().withLabels(Map.of("app", "web")).endMetadata()
                    .withNewSpec()
                        .addNewContainer().withName("web").withImage("nginx").endContainer()
                    .endSpec()
                .endTemplate()
            .endSpec()
            .build();
        try (KubernetesClient client = new KubernetesClientBuilder().build()) {
            client.resource(deployment).create();
            Deployment available = client.resource(deployment).waitUntilCondition(
                found -> found != null
                    && found.getStatus() != null
                    && Integer.valueOf(2).equals(found.getStatus().getAvailableReplicas()),
                60, TimeUnit.SECONDS);
            assertEquals(2, available.getStatus().getReadyReplicas());
            client.resource(deployment).delete();
        }
    }
}
