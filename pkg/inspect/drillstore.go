package inspect

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

const (
	checkPointer    = "pointer"
	checkCheckpoint = "checkpoint"
	checkGate       = "gate"
)

// checkStore picks and verifies the checkpoint as recovery does.
func (d *drill) checkStore() error {
	if !d.intent.HasPlan() {
		d.skip(checkPointer, "there is no intent to go by")
		d.skip(checkCheckpoint, "there is no intent to go by")
		return nil
	}
	output := d.sp.outputs[checkpoint.OrdinaryName(d.fact.Name)]
	if !d.inv.live && (output == nil || output.bare || d.fact.UID == "") {
		d.add(Check{Name: checkPointer, Result: NotKnown, Reason: string(ReasonNotGiven),
			Message: fmt.Sprintf("%s: it is not in the input with its status and UIDs", objectName(v1alpha1.KindCfg, checkpoint.OrdinaryName(d.fact.Name)))})
		d.skip(checkCheckpoint, "the pointers are not known")
		return nil
	}
	doubt, err := d.unjudged(output)
	if err != nil {
		return err
	}
	choice, refusal := selection.Choose(d.template, d.snapshot(output), d.intent)
	switch {
	case refusal != nil && isAboutPointer(refusal.Reason):
		d.refuse(checkPointer, refusal)
		d.skip(checkCheckpoint, "there is no usable pointer to it")
		return nil
	case doubt != nil:
		d.passPointer()
		d.add(*doubt)
		return nil
	case refusal != nil:
		d.passPointer()
		d.refuse(checkCheckpoint, refusal)
		return nil
	}
	d.passPointer()
	d.choice, d.report.Checkpoint = choice, choice.Name
	message := fmt.Sprintf("%s verifies, and a receipt proves that a worker ran it", objectName(v1alpha1.KindCfg, choice.Name))
	if len(choice.Damaged) > 0 {
		message += "; damaged, but not needed now: " + strings.Join(choice.Damaged, ", ")
	}
	d.add(Check{Name: checkCheckpoint, Result: Passed, Message: message})
	return nil
}

func (d *drill) passPointer() {
	d.add(Check{Name: checkPointer, Result: Passed, Message: "a committed pointer names a checkpoint with the intent's checksum"})
}

func isAboutPointer(reason selection.Reason) bool {
	switch reason {
	case selection.ReasonNoCheckpoint, selection.ReasonPointerUntrusted, selection.ReasonIntentOutranCheckpoint, selection.ReasonSnapshotChanged:
		return true
	}
	return false
}

// unjudged is what keeps the intended checkpoint from being judged although it
// may be sound: what there is no right to read, or what an export left out.
func (d *drill) unjudged(output *outputFact) (*Check, error) {
	if output == nil {
		return nil, nil
	}
	for _, pointer := range output.Pointers {
		if pointer.Checksum != d.intent.Checksum {
			continue
		}
		r := d.sp.retained[pointer.Name]
		if r == nil {
			if d.inv.live || len(d.sp.retained) > 0 {
				continue
			}
			return &Check{Name: checkCheckpoint, Result: NotKnown, Reason: string(ReasonNotGiven),
				Message: objectName(v1alpha1.KindCfg, pointer.Name) + ": it is not in the input"}, nil
		}
		judged, err := (&verifier{inv: d.inv}).judge(d.sp, r)
		if err != nil {
			return nil, err
		}
		if v := judged.Verdict; v.State == checkpoint.Unknown && v.Reason != checkpoint.ReasonUnsupportedSchema {
			return &Check{Name: checkCheckpoint, Result: NotKnown, Reason: string(v.Reason), Message: v.Message,
				Do: "Get the right to read what is named, or give it with the export"}, nil
		}
	}
	return nil, nil
}

// snapshot is what a recovery would have read.
func (d *drill) snapshot(output *outputFact) selection.Snapshot {
	s := selection.Snapshot{Checkpoints: map[string]*v1alpha1.HAProxyCfg{}}
	if output == nil {
		return s
	}
	s.Before, s.After = output.cfg, output.cfg
	pointers, _ := record.Ordinary(output.cfg)
	for _, pointer := range pointers {
		s.Checkpoints[pointer.Name] = nil
		if r := d.sp.retained[pointer.Name]; r != nil {
			s.Checkpoints[pointer.Name] = r.cfg
		}
	}
	for _, c := range d.sp.children {
		s.Children = append(s.Children, c.stored)
	}
	return s
}

// checkGate asks a HAProxy binary about the checkpoint.
func (d *drill) checkGate(ctx context.Context) {
	switch {
	case d.settings.Gate == nil:
		d.skip(checkGate, "HAProxy was not asked: --gate asks the binary on this machine, --gate=cluster that of the controllers")
		return
	case d.choice == nil:
		d.skip(checkGate, "there is no checkpoint to ask about")
		return
	}
	verdict, err := d.settings.Gate(ctx, d.choice.Name, d.choice.Output)
	if err != nil {
		verdict.Message = err.Error()
	}
	object := objectName(v1alpha1.KindCfg, d.choice.Name)
	message := selection.Redact(d.choice.Output, selection.Alerts(verdict.Message))
	switch {
	case err == nil && verdict.Valid:
		d.add(Check{Name: checkGate, Result: Passed, Message: fmt.Sprintf("HAProxy %s accepts it", verdict.Version)})
	case err == nil && verdict.Refused:
		d.refuse(checkGate, &selection.Refusal{Reason: selection.ReasonGateRefused,
			Message: fmt.Sprintf("%s: expected HAProxy %s to accept it, found: %s", object, verdict.Version, message),
			Do:      "Fix rendering, or go back to the HAProxy version that ran it"})
	default:
		d.add(Check{Name: checkGate, Result: NotKnown, Reason: string(selection.ReasonGateUnknown),
			Message: fmt.Sprintf("%s: expected a verdict of HAProxy, found none: %s", object, message),
			Do:      "See whether HAProxy runs where it was asked; for --gate=local, --haproxy names the binary"})
	}
}
