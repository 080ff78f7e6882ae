package netns

// The addresses of a cluster. They exist in its network namespace alone, so
// they need not differ between clusters or avoid the host's.
const (
	// PodCIDR holds the node and every pod.
	PodCIDR = "10.244.0.0/16"
	// ServiceCIDR holds the cluster addresses of Services.
	ServiceCIDR = "10.96.0.0/16"
	// NodeIP is the node itself; kubelet's port is served there.
	NodeIP = "10.244.0.1"
	// APIServerIP is the first Service address, the one of the Service
	// "kubernetes": kube-apiserver listens on it for real.
	APIServerIP = "10.96.0.1"
	// APIServerAddress is where clients inside reach kube-apiserver.
	APIServerAddress = APIServerIP + ":443"
)
