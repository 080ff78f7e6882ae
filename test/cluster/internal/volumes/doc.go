// Package volumes makes a pod's volumes as folders, keeps them current, and says
// which of them a container mounts where.
//
// Supported are emptyDir, configMap, secret, downwardAPI, projected and
// hostPath. What comes from the API lies in memory and is replaced as a whole
// through the ..data link, as the kubelet does; emptyDir lies on disk unless
// its medium is Memory. Other kinds are refused with their name.
package volumes
