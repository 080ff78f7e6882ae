// Package agenttest runs the real agent in a test, with everything but HAProxy:
// its listeners, TLS, state machine, journal and files are the product's own, so
// a test agent cannot differ from the real one. HAProxy is replaced at its
// sockets by a master that loads what is on disk, says so like version 3.0, and
// refuses what the test wants refused.
//
// Its limits: no traffic is served, maps, certificates and servers are none, and
// old workers end at once.
package agenttest
