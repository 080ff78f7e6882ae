// Package retained holds what is the same in every version of the view group
// retained.haproxy-haptic.org: its name and the closed lists of condition types
// and reasons that views carry.
//
// The views have no internal version: there is one version, nothing is stored,
// and the server hands out the versioned objects it computed.
package retained

// GroupName is the API group of the views. It differs from the stored group
// because an APIService claims a whole group and version and would hide custom
// resources of the same one.
const GroupName = "retained.haproxy-haptic.org"
