// Package client talks to the agents of proxy pods on behalf of a controller.
//
// It promises that every request names the pod and the template it is meant
// for, that every answer is bounded and every call ends with its context or
// its own time-out, and that refusals come back as types: nothing needs to be
// told apart by text.
//
// It never repeats an apply by itself, with one exception: files the agent asks
// for are sent, exactly those, with the same manifest. When an apply may have
// reached the agent and no answer came back, the error is an UnansweredError;
// reading the state tells what happened, and the same manifest may be sent
// again, because an agent answers a repeat with the first result.
package client
