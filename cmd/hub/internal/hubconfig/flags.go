// SPDX-License-Identifier: Apache-2.0

package hubconfig

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
)

// AppsNamespaceHelp is the help of a flag of three commands.
const AppsNamespaceHelp = "With --impersonate-apps, the namespace of the ServiceAccounts that apps act as, which holds nothing " +
	"else. Default: the namespace of the hub's Secrets, with -apps"

// Flags are the flags of the command run.
type Flags struct {
	kubeconfig, context string
	Options             process.Options
	log                 logging.Options
	file                string
	set                 *pflag.FlagSet
	configuration       configurationFile
}

// Bind adds the flags of a hub with these modules to a set.
func Bind(set *pflag.FlagSet, modules []registry.Module) *Flags {
	f := &Flags{set: set}
	f.Options.Modules = modules
	f.Options.Registry.Metrics = ctrlmetrics.Registry
	set.StringVar(&f.file, ConfigFlag, "",
		"File of kind "+Kind+" with flags and the configuration of modules. Default: none")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "Path of a kubeconfig for the hub's cluster. "+
		"Default: $KUBECONFIG, else the service account if the hub runs in a Pod, else ~/.kube/config")
	set.StringVar(&f.context, "context", "", "Context of the kubeconfig to use. Default: its current context")
	f.bindHub()
	f.bindReplicas()
	f.bindPolicy()
	BindNATS(set, &f.Options.NATS)
	set.StringVar(&f.Options.NATS.Secret, "nats-secret", "",
		"Secret in the credentials namespace with the key nats.creds or nats.nk, and with ca.crt, in place of the files. Default: none")
	set.BoolVar(&f.Options.NATS.CreateBuckets, "nats-create-buckets", false,
		"Create a bucket that a module follows, if it does not exist and the hub has never seen it (default false)")
	f.bindProcess()
	return f
}

func (f *Flags) bindHub() {
	o := &f.Options
	f.set.StringVar(&o.CredentialsNamespace, "credentials-namespace", hubv1.DefaultNamespace,
		"The one namespace in which the hub reads Secrets")
	f.set.IntVar(&o.Concurrency, "concurrency", process.DefaultConcurrency,
		"How many Cluster objects are reconciled at the same time")
	f.set.IntVar(&o.Registry.Limits.Starts, "max-concurrent-starts", 64,
		"How many apps of remotes may be built and filled with objects at the same time")
	f.set.IntVar(&o.Registry.Limits.MaxObjects, "max-objects-per-cluster", 100_000,
		"How many objects the hub may hold in memory of one remote; the app of a remote with more objects does not run")
	f.set.IntVar(&o.Registry.Limits.MaxCacheBytes, "max-cache-bytes-per-cluster", 256<<20,
		"How many bytes the objects of one remote may take up in the hub's memory, estimated")
	f.set.DurationVar(&o.RemoveWithin, "remove-timeout", process.DefaultRemoveWithin,
		"How long modules may clean up in a remote when its Cluster is deleted; after that the hub gives up unfinished cleanup")
	f.set.BoolVar(&o.Registry.Impersonate, "impersonate-apps", false,
		"Let every app act on the hub as the ServiceAccount with the name of its Cluster, which need not exist, with "+
			"the permissions that are bound to that and no others (default false)")
	f.set.StringVar(&o.Registry.AppsNamespace, "apps-namespace", "", AppsNamespaceHelp)
	f.set.BoolVar(&o.Registry.AllowDuplicates, "allow-duplicate-clusters", false,
		"Run an app for each of several Clusters that lead to the same remote. Meant for benchmarks (default false)")
	f.set.BoolVar(&o.Registry.AllowHub, "allow-hub-as-remote", false,
		"Run an app for a Cluster that leads to the hub's own cluster (default false)")
	f.set.StringVar(&o.Registry.Replica, "replica-name", hostname(),
		"Name of this process in user agents, and so in audit logs. Default: the host's name")
	f.set.Lookup("replica-name").DefValue = "" // The text says it, and is the same everywhere.
}

const aloneFlag, activeFlag, shardsFlag, labelsFlag = "alone", "active-replicas", "shards", "replica-labels"

func (f *Flags) bindReplicas() {
	o := &f.Options
	f.set.BoolVar(&o.Alone, aloneFlag, !inPod(),
		"This hub has no replicas and no lease: another hub beside it does harm. Default: false in a Pod, true elsewhere")
	f.set.Lookup(aloneFlag).DefValue = "false" // The text says it.
	BindActive(f.set, &o.Active)
	BindShards(f.set, &o.Shards)
	f.set.StringToStringVar(&o.Labels, labelsFlag, nil,
		"Labels of this replica, as `key=value`, separated by commas. A Cluster with spec.runner.matchLabels runs in a replica "+
			"with these labels. Default: none")
	f.set.Lookup(labelsFlag).DefValue = "" // The help says it already.
}

// BindActive adds the flag of the number of active replicas.
func BindActive(set *pflag.FlagSet, n *int) {
	set.IntVar(n, activeFlag, 1, "How many replicas of the hub run Clusters, each a part of them; the others stand by. 0 means all")
}

// BindShards adds the flag of the number of shards.
func BindShards(set *pflag.FlagSet, n *int) {
	set.IntVar(n, shardsFlag, shards.DefaultCount,
		"Number of parts of the Clusters. It is the same for all replicas and never changes")
}

// CheckReplicas returns an error unless an installation can have these numbers of active replicas and of shards.
func CheckReplicas(active, count int) error {
	var errs []error
	if count > replica.MaxCount {
		errs = append(errs, fmt.Errorf("--%s=%d: use %d or fewer, because each shard is an object in the hub's cluster; "+
			"more than ten times the number of replicas is enough", shardsFlag, count, replica.MaxCount))
	}
	if active < 0 || active > count {
		errs = append(errs, fmt.Errorf("--%s=%d: use a number from 1 to that of --%s, %d, or 0 for all replicas", activeFlag, active, shardsFlag, count))
	}
	return errors.Join(append(errs, checkAtLeastOne(shardsFlag, count))...)
}

func (f *Flags) bindPolicy() {
	p := &f.Options.Registry.Policy
	f.set.Var((*CIDRs)(&p.AllowCIDRs), "allow-cidr",
		"Connect to remotes at these addresses even if they are loopback, link-local or metadata ones. "+
			"Repeatable (default none)")
	f.set.Var((*CIDRs)(&p.DenyCIDRs), "deny-cidr",
		"Never connect to remotes at these addresses; wins over --allow-cidr. Repeatable (default none)")
	f.set.BoolVar(&p.AllowProxyURL, "allow-proxy-url", false,
		"Accept credentials that name a proxy (default false)")
	f.set.BoolVar(&p.ProxyFromEnvironment, "proxy-from-environment", false,
		"Use HTTPS_PROXY and NO_PROXY for remotes whose credentials name no proxy (default false)")
	f.set.BoolVar(&p.AllowInsecureTLS, "insecure-kubeconfig-tls", false,
		"Accept credentials that turn off the verification of the server's certificate. "+
			"Whoever is on the way can then read the token (default false)")
}

// BindNATS adds the flags that say where NATS is, for the hub and for commands that work on buckets.
func BindNATS(set *pflag.FlagSet, o *natshub.Options) {
	set.StringVar(&o.URL, "nats-url", "",
		"Address of the NATS server with the entities of modules, as tls://host:4222; several with commas. Default: none")
	set.StringVar(&o.CredentialsFile, "nats-creds", "", "File with the JWT and the seed of the NATS user, as nsc writes it. Default: none")
	set.StringVar(&o.NKeyFile, "nats-nkey", "", "File with the nkey seed of the NATS user, in place of --nats-creds. Default: none")
	set.StringVar(&o.CAFile, "nats-ca", "", "File with the certificate authorities of the NATS server. Default: those of the system")
	set.StringVar(&o.Domain, "nats-domain", "", "Domain of JetStream. Default: that of the server")
}

func (f *Flags) bindProcess() {
	f.set.StringVar(&f.Options.MetricsAddress, "metrics-bind-address", ":8080",
		"Address to serve /metrics at, or 0 for nowhere")
	f.set.BoolVar(&f.Options.Registry.AggregateMetrics, "metrics-aggregate", false,
		"Leave the names of clusters out of the hub's own metrics, for fleets of thousands (default false)")
	f.set.StringVar(&f.Options.HealthAddress, "health-probe-bind-address", ":8081",
		"Address to serve /healthz and /readyz at, or 0 for nowhere. Neither depends on a remote")
	f.set.StringVar(&f.Options.DebugAddress, "debug-bind-address", serving.Nowhere,
		"Address of loopback to serve profiles (/debug/pprof) at, such as 127.0.0.1:6060, "+
			"or 0 for nowhere. kubectl port-forward reaches it")
	f.set.StringVar(&f.Options.TunnelAddress, "tunnel-bind-address", serving.Nowhere,
		"Address for agents of remotes that the hub cannot reach (spec.via: Tunnel), without TLS of its own: a balancer or an Ingress "+
			"may add that. 0 for nowhere")
	f.set.StringVar(&f.Options.CrashFile, "crash-file", "",
		"File for what this process writes when a panic ends it, in a folder that outlives it. The next process quarantines the Cluster "+
			"whose app that was. Default: none")
	BindLogLevel(f.set, &f.log)
	f.log.Format = logging.Auto
	f.set.Var(output.OneOf(&f.log.Format, logging.JSON, logging.Console, logging.Auto), "log-format",
		"json, console, or auto: console on a terminal and json elsewhere")
}

// BindLogLevel adds the flag that says how much to log.
func BindLogLevel(set *pflag.FlagSet, o *logging.Options) {
	o.Level = "info"
	set.Var(output.OneOf(&o.Level, "debug", "info", "error"), "log-level", "How much to log: debug, info or error")
}

// Read reads the configuration file, if there is one, and checks all flags.
func (f *Flags) Read() error {
	if f.file != "" {
		text, err := ReadText(f.file)
		if err == nil {
			err = f.parseFile(text)
		}
		if err != nil {
			return err
		}
	}
	return f.check()
}

// Complete reads the flags and returns the options of a hub that logs to w.
func (f *Flags) Complete(w io.Writer) (process.Options, error) {
	if err := f.Read(); err != nil {
		return process.Options{}, err
	}
	o := f.Options
	var err error
	o.Log = logging.New(w, f.log)
	if o.Config, err = f.loadConnection(); err != nil {
		return o, err
	}
	o.Config.UserAgent = fmt.Sprintf("clusterfx/%s (%s)", o.Registry.Replica, project.Version())
	return o, nil
}

// parseFile leaves its errors to check.
func (f *Flags) parseFile(text []byte) error {
	c, err := parseConfiguration(f.file, text)
	if err != nil {
		return err
	}
	c.setFlags(f.set)
	f.configuration, f.Options.Registry.ModuleConfigs = *c, c.Modules
	return nil
}

// Overridden returns the flags in the configuration file that the command line has, too.
func (f *Flags) Overridden() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.configuration.Flags)), func(name string) bool { return !f.set.Changed(name) })
}

// Report returns an error about the values of flags, with the path of the configuration file where they are from it.
func (f *Flags) Report(err error) error { return f.configuration.report(err) }

// check also checks everything in the file.
func (f *Flags) check() error {
	err := f.validate()
	if f.configuration.path != "" {
		ofModules := process.ValidateModules(f.Options.Modules, f.Options.Registry.ModuleConfigs)
		if all := leaves(errors.Unwrap(ofModules)); len(all) > 0 {
			ofModules = errors.Join(all...) // each names its module
		}
		err = errors.Join(err, ofModules)
	}
	return f.Report(err)
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil || !replicaName.MatchString(name) {
		return "hub"
	}
	return name
}

// Parse returns the flags of the command run with these arguments.
func Parse(args []string, modules []registry.Module) (*Flags, error) {
	f := Bind(pflag.NewFlagSet("run", pflag.ContinueOnError), modules)
	return f, f.set.Parse(args)
}

// Value returns the value of a flag.
func (f *Flags) Value(name string) string { return f.set.Lookup(name).Value.String() }

// InFile reports whether the configuration file has a valid value for a flag.
func (f *Flags) InFile(name string) bool { return f.configuration.flags[name] }

// File returns the path of the configuration file.
func (f *Flags) File() string { return f.file }

// LogLevel returns how much to log.
func (f *Flags) LogLevel() string { return f.log.Level }

// loadConnection follows controller-runtime's rules: the flag, the environment, the service account, the home directory. Its own
// code keeps the flag in a global variable. The rate is not limited here: the API server does it better.
func (f *Flags) loadConnection() (*rest.Config, error) {
	config, err := f.findConnection()
	if err != nil {
		return nil, fmt.Errorf("find the hub's cluster: %w; say which it is with --kubeconfig and --context, %s", access.Brief(err), project.Dev)
	}
	if config.QPS == 0 {
		config.QPS = -1
	}
	return config, nil
}

func (f *Flags) findConnection() (*rest.Config, error) {
	if f.kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return config, nil
		}
	}
	return access.Load(f.kubeconfig, &clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
}

// inPod: there may be other replicas.
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }
