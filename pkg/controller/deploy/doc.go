// Package deploy brings the newest output of a term to every proxy pod.
//
// It promises that no pod is given an output before its intent was recorded,
// that one deployment runs at a time and the next one is the newest output, that
// a pod already running exactly the output is left alone, and that whatever is
// reported of a pod was said by the pod itself: a receipt is a worker seen
// running the output, never an answered request.
//
// A pod is read before it is changed, and the change is a compare-and-swap at
// the agent; when the pod moved in between, it is read again, a bounded number
// of times. One slow or broken pod delays the next output by at most the time
// that one pod may take.
//
// An output that turns out to be refused after it was dispatched is taken back:
// pods that carry it without having loaded it leave it, those that run it keep
// it, and all others get the output before once more.
//
// Its limits: the only way to a new output is a reload, and a pod that refuses
// an output keeps what it has until the next output or the next drift check.
package deploy
