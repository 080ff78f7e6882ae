// Package client talks to the agents of proxy pods on behalf of a controller.
//
// It promises that every request names the pod and the template it is meant
// for, that every answer is bounded and every call ends with its context or
// its own time-out, and that refusals come back as types: nothing needs to be
// told apart by text.
//
// It never repeats an apply that may have been carried out. Files that the agent
// asks for are sent, exactly those, with the same manifest, and an apply that a
// busy agent dropped unread is sent again, as are reads and announcements whose
// connection broke. When no answer to an apply came back, the state is read a few
// times for its result; what it does not tell is an UnansweredError. The caller,
// who knows whether it may still act, can send the same manifest again then,
// because an agent answers a repeat with the first result.
//
// Large files that changed a little since this process sent them are sent as
// patches, to agents that take them. The contents to patch from are bounded.
package client
