// Package kubernetes has the test of what deploy/kubernetes renders to.
package kubernetes

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// What Kustomize makes of the folder is what Kubernetes knows, field by field, and its parts fit each other.
func TestRendered(t *testing.T) {
	t.Parallel()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../deploy/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	var (
		deployment apps.Deployment
		settings   core.ConfigMap
		budget     policy.PodDisruptionBudget
		network    networking.NetworkPolicy
		services   []core.Service
	)
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var into any
		switch kind := resource.GetKind(); kind {
		case "Deployment":
			into = &deployment
		case "ConfigMap":
			into = &settings
		case "PodDisruptionBudget":
			into = &budget
		case "NetworkPolicy":
			into = &network
		case "ServiceAccount":
			into = &core.ServiceAccount{}
		case "Service":
			services = append(services, core.Service{})
			into = &services[len(services)-1]
		default:
			t.Fatalf("a %s that this test does not know", kind)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Errorf("%s %s: %v", resource.GetKind(), resource.GetName(), err)
		}
	}

	pod := deployment.Spec.Template
	server := pod.Spec.Containers[0]
	selects := func(name string, labels map[string]string) {
		t.Helper()
		if len(labels) == 0 {
			t.Errorf("%s selects every pod", name)
		}
		for label, value := range labels {
			if pod.Labels[label] != value {
				t.Errorf("%s selects pods with %s=%s, which the servers are not", name, label, value)
			}
		}
	}
	selects("the deployment", deployment.Spec.Selector.MatchLabels)
	selects("the budget", budget.Spec.Selector.MatchLabels)
	selects("the network policy", network.Spec.PodSelector.MatchLabels)
	hasPort := func(name string) bool {
		return slices.ContainsFunc(server.Ports, func(port core.ContainerPort) bool { return port.Name == name })
	}
	for _, service := range services {
		selects(service.Name, service.Spec.Selector)
		for _, port := range service.Spec.Ports {
			if !hasPort(port.TargetPort.StrVal) {
				t.Errorf("%s leads to the port %q, which the servers do not have", service.Name, port.TargetPort.StrVal)
			}
		}
	}
	for _, probe := range []*core.Probe{server.StartupProbe, server.LivenessProbe, server.ReadinessProbe} {
		if probe == nil || !hasPort(probe.HTTPGet.Port.StrVal) {
			t.Errorf("a probe asks where nobody listens: %+v", probe)
		}
	}
	mounted := map[string]string{} // volumes, by name
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap != nil && volume.ConfigMap.Name == settings.Name {
			for name := range settings.Data {
				mounted[volume.Name] = "/" + name
			}
		}
	}
	for _, mount := range server.VolumeMounts {
		if file, found := mounted[mount.Name]; found {
			mounted[mount.Name] = mount.MountPath + file
		}
	}
	if want := []string{"serve", "--config", mounted["settings"]}; !slices.Equal(server.Args, want) || !strings.Contains(settings.Data["settings.env"], "CONNECT_BASE_URL=") {
		t.Errorf("the servers run %q, and the settings are at %q", server.Args, mounted)
	}
	if *deployment.Spec.Replicas < 2 || budget.Spec.MinAvailable.IntValue() < 1 {
		t.Error("somebody who moves a node stops the service")
	}
	for _, container := range append(pod.Spec.InitContainers, server) {
		if !strings.HasPrefix(container.Image, "registry.example/connect-svc:") {
			t.Errorf("%s has the image %s", container.Name, container.Image)
		}
		if context := container.SecurityContext; *context.AllowPrivilegeEscalation || !*context.ReadOnlyRootFilesystem || !slices.Contains(context.Capabilities.Drop, "ALL") {
			t.Errorf("%s has more rights than it needs", container.Name)
		}
	}
}

// Behind PgBouncer, which refuses migrations, the patch of docs/install.md gives the URL of PostgreSQL itself to the container that migrates.
func TestMigratesBesidePgBouncer(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, patch, found := strings.Cut(string(page), "```yaml\npatches:\n")
	if !found {
		t.Fatal("docs/install.md has no patch for it")
	}
	patch, _, _ = strings.Cut(patch, "```")
	base, err := filepath.Abs("../../deploy/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	way, err := filepath.Rel(folder, base)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte("resources: ["+way+"]\npatches:\n"+patch), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	var deployment apps.Deployment
	for _, resource := range resources.Resources() {
		if text, err := resource.AsYAML(); err != nil || resource.GetKind() == "Deployment" && yaml.UnmarshalStrict(text, &deployment) != nil {
			t.Fatalf("%s: %v", resource.GetKind(), err)
		}
	}
	pod := deployment.Spec.Template.Spec
	for file, containers := range map[string][]core.Container{"/secrets/migrate-database-url": pod.InitContainers, "/secrets/database-url": pod.Containers} {
		for _, container := range containers {
			if want := (core.EnvVar{Name: "CONNECT_DATABASE_URL_FILE", Value: file}); !slices.Contains(container.Env, want) {
				t.Errorf("%s has %v, want %v", container.Name, container.Env, want)
			}
		}
	}
	if !strings.Contains(string(page), "--from-file=migrate-database-url") {
		t.Error("the secret lacks that URL")
	}
}

// The component beside the base scrapes the private service, and has the rules of docs/alerts.yaml.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	base, err := filepath.Abs("../../deploy/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	way, err := filepath.Rel(folder, base)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte("resources: ["+way+"]\ncomponents: ["+way+"/monitoring]\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	var rules, want struct{ Groups any }
	var monitor struct {
		Selector  struct{ MatchLabels map[string]string }
		Endpoints []struct {
			Port, Path  string
			Relabelings []struct{ TargetLabel, Replacement string }
		}
	}
	spec := func(text []byte, into any) {
		t.Helper()
		whole := struct{ Spec any }{into}
		if err := yaml.Unmarshal(text, &whole); err != nil {
			t.Fatal(err)
		}
	}
	var services []core.Service
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		switch resource.GetKind() {
		case "PrometheusRule":
			spec(text, &rules)
		case "ServiceMonitor":
			spec(text, &monitor)
		case "Service":
			services = append(services, core.Service{})
			if err := yaml.Unmarshal(text, &services[len(services)-1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	document, err := os.ReadFile("../../docs/alerts.yaml")
	if err == nil {
		err = yaml.Unmarshal(document, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	if want.Groups == nil || !reflect.DeepEqual(rules.Groups, want.Groups) {
		t.Error("deploy/kubernetes/monitoring/prometheusrule.yaml has other rules than docs/alerts.yaml: copy its groups")
	}
	if len(monitor.Endpoints) != 1 || monitor.Endpoints[0].Path != "/metrics" || len(monitor.Endpoints[0].Relabelings) != 1 ||
		monitor.Endpoints[0].Relabelings[0].TargetLabel != "job" || monitor.Endpoints[0].Relabelings[0].Replacement != "connect-svc" {
		t.Fatalf("scraped are %+v", monitor.Endpoints)
	}
	scraped := slices.DeleteFunc(services, func(service core.Service) bool {
		for label, value := range monitor.Selector.MatchLabels {
			if service.Labels[label] != value {
				return true
			}
		}
		return false
	})
	if len(scraped) != 1 || scraped[0].Spec.Ports[0].Name != monitor.Endpoints[0].Port || scraped[0].Name != "connect-svc-private" {
		t.Errorf("scraped are %d services", len(scraped))
	}
}
