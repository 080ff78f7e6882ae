// Package environment works out what a container sees of its pod: environment
// variables, the command with $(NAME) replaced, and downward API values.
//
// It decides only; ConfigMaps and Secrets come through a small interface. Of
// the variables that the kubelet adds for Services, only those of "kubernetes"
// are set.
package environment
