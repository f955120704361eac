package zoo;

import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Copies the specification of a shop into a ConfigMap, and notes in its status that this is done.
 *
 * <p>Bug: it is noted first.
 */
public final class Shops {
  private static final String NAMESPACE = "default";
  private static final ResourceDefinitionContext SHOPS =
      new ResourceDefinitionContext.Builder()
          .withGroup("zoo.example.com").withVersion("v1").withKind("Shop").withPlural("shops").withNamespaced(true)
          .build();

  private final KubernetesClient client;
  private final boolean hasBug;
  private final ScheduledExecutorService queue = Executors.newSingleThreadScheduledExecutor();
  private SharedIndexInformer<GenericKubernetesResource> informer;

  private Shops(KubernetesClient client, boolean hasBug) {
    this.client = client;
    this.hasBug = hasBug;
  }

  private void reconcile(String name) {
    var shop = informer.getStore().getByKey(NAMESPACE + "/" + name);
    if (shop == null || shop.getMetadata().getDeletionTimestamp() != null) {
      return;
    }
    Map<String, Object> done = Map.of("noted", shop.getAdditionalProperties().get("spec"));
    if (Objects.equals(shop.getAdditionalProperties().get("status"), done)) {
      return;
    }
    try {
      if (hasBug) {
        note(name, done);
        copy(shop);
      } else {
        copy(shop);
        note(name, done);
      }
    } catch (KubernetesClientException error) {
      System.err.println(error.getMessage());
      queue.schedule(() -> reconcile(name), 1, TimeUnit.SECONDS);
    }
  }

  private void copy(GenericKubernetesResource shop) {
    var data = new TreeMap<String, String>();
    shop.<Map<String, Object>>get("spec").forEach((field, value) -> data.put(field, String.valueOf(value)));
    var meta = shop.getMetadata();
    var map = new ConfigMapBuilder()
        .withNewMetadata()
        .withName(meta.getName() + "-map").withNamespace(NAMESPACE)
        .addNewOwnerReference()
        .withApiVersion(shop.getApiVersion()).withKind(shop.getKind()).withName(meta.getName()).withUid(meta.getUid())
        .endOwnerReference()
        .endMetadata()
        .withData(data)
        .build();
    client.resource(map).forceConflicts().serverSideApply();
  }

  private void note(String name, Map<String, Object> done) {
    var patch = client.getKubernetesSerialization().asJson(Map.of("status", done));
    var shop = client.genericKubernetesResources(SHOPS).inNamespace(NAMESPACE).withName(name);
    shop.patch(PatchContext.of(PatchType.JSON_MERGE), patch);
  }

  private void run() throws InterruptedException {
    informer = client.genericKubernetesResources(SHOPS).inNamespace(NAMESPACE).runnableInformer(0);
    informer.addEventHandler(new ResourceEventHandler<>() {
      @Override
      public void onAdd(GenericKubernetesResource shop) {
        queue.execute(() -> reconcile(shop.getMetadata().getName()));
      }

      @Override
      public void onUpdate(GenericKubernetesResource before, GenericKubernetesResource shop) {
        onAdd(shop);
      }

      @Override
      public void onDelete(GenericKubernetesResource shop, boolean isUnknown) {}
    });
    informer.run();
    Thread.currentThread().join();
  }

  public static void main(String[] arguments) throws InterruptedException {
    try (var client = new KubernetesClientBuilder().build()) {
      new Shops(client, arguments.length > 0 && arguments[0].equals("--bug")).run();
    }
  }
}
