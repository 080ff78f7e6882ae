// Package docs holds what is written for people against the code.
package docs
