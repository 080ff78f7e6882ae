package controlplane

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
	"github.com/holdfast-project/holdfast/test/cluster/internal/pki"
	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

// RunAPIServer runs kube-apiserver and answers its exit code.
func RunAPIServer(dir state.Dir) int {
	audit, err := auditFlags(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := apiserver.NewAPIServerCommand()
	cmd.SetArgs(append(apiServerFlags(pki.In(dir.Path("pki"))), audit...))
	return cli.Run(cmd)
}

// RunControllerManager runs kube-controller-manager and answers its exit code.
func RunControllerManager(dir state.Dir) int {
	cmd := controllermanager.NewControllerManagerCommand()
	cmd.SetArgs(controllerManagerFlags(pki.In(dir.Path("pki"))))
	return cli.Run(cmd)
}

// RunKubectl runs kubectl with os.Args reduced to its own arguments.
func RunKubectl(args []string) int {
	// kubectl looks for plugins and its own name in os.Args.
	os.Args = append([]string{"kubectl"}, args...)
	return cli.Run(kubectl.NewDefaultKubectlCommand())
}

// apiServerFlags binds kube-apiserver to one address only: a wildcard would
// take port 443 from every pod, since all share the namespace.
func apiServerFlags(files pki.Files) []string {
	return []string{
		"--bind-address=" + netns.APIServerIP,
		"--advertise-address=" + netns.APIServerIP,
		"--secure-port=443",
		"--service-cluster-ip-range=" + netns.ServiceCIDR,
		"--etcd-servers=" + etcdClients,
		"--etcd-cafile=" + files.EtcdCA,
		"--etcd-certfile=" + files.EtcdClient.CertFile,
		"--etcd-keyfile=" + files.EtcdClient.KeyFile,
		"--client-ca-file=" + files.ClusterCA,
		"--tls-cert-file=" + files.APIServer.CertFile,
		"--tls-private-key-file=" + files.APIServer.KeyFile,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + files.ServiceAccountPublic,
		"--service-account-signing-key-file=" + files.ServiceAccountKey,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--requestheader-client-ca-file=" + files.FrontProxyCA,
		"--requestheader-allowed-names=" + pki.FrontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + files.FrontProxy.CertFile,
		"--proxy-client-key-file=" + files.FrontProxy.KeyFile,
		"--enable-aggregator-routing=true",
		"--kubelet-certificate-authority=" + files.ClusterCA,
		"--kubelet-client-certificate=" + files.KubeletClient.CertFile,
		"--kubelet-client-key=" + files.KubeletClient.KeyFile,
		"--kubelet-preferred-address-types=InternalIP",
	}
}

func controllerManagerFlags(files pki.Files) []string {
	return []string{
		"--kubeconfig=" + files.ControllerManager,
		"--authentication-kubeconfig=" + files.ControllerManager,
		"--authorization-kubeconfig=" + files.ControllerManager,
		"--bind-address=127.0.0.1",
		"--secure-port=10257",
		"--leader-elect=false",
		"--root-ca-file=" + files.ClusterCA,
		"--service-account-private-key-file=" + files.ServiceAccountKey,
		"--use-service-account-credentials=true",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
	}
}
