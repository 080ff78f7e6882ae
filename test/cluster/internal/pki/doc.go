// Package pki makes the keys and certificates of one development cluster and
// writes them, with the kubeconfigs that use them, below one folder.
//
// There are three authorities, as in a real cluster, so that a certificate of
// one kind is never accepted as another: the cluster's (servers and users),
// the front proxy's (the aggregation layer) and etcd's. Everything is new at
// each start and lives as long as the state directory; nothing is rotated.
package pki
