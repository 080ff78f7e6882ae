package api

// Version is the API version an agent reports and a client expects.
const Version = 1

// IdentityVersion is the only value of a manifest's identity_version that is
// accepted: plans and files are identified by digest and proof together.
const IdentityVersion = 1

// PlanSchemaVersion is the plan schema an agent stores. The agent does not look
// into a plan, so this only guards against a future one that it must read.
const PlanSchemaVersion = 1

// Routes of the agent. Health routes need no client certificate, the rest
// needs the controller's; RouteDrain exists on the local socket alone.
const (
	RouteHealth = "/healthz"
	RouteReady  = "/readyz"
	RouteState  = "/v1/state"
	RouteApply  = "/v1/apply"
	RouteEpoch  = "/v1/epoch"
	RoutePlan   = "/v1/plan"
	RouteDrain  = "/drain"
)

// Query parameters of RouteState.
const (
	// QueryVerify set to 1 hashes the files and asks the worker again first.
	QueryVerify = "verify"
	// QueryPlan set to 0 leaves the plan blob out of the answer.
	QueryPlan = "plan"
)

// Headers that address a request. An address can be taken over by another pod
// between discovery and connection, so the network address alone proves nothing.
const (
	HeaderPodUID      = "Holdfast-Pod-Uid"
	HeaderTemplateUID = "Holdfast-Template-Uid"
)

// DNS names in certificates that tell the two roles apart.
const (
	ControllerName = "controller.holdfast.internal"
	AgentName      = "agent.holdfast.internal"
)

// Parts of an apply. The manifest comes first, then at most one plan; every
// other part is a file whose filename parameter is its path in the manifest.
const (
	PartManifest = "manifest"
	PartPlan     = "plan"
	PartFile     = "file"
)
