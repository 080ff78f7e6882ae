package main

// mutant is one guard taken out, in one place or in all that hold it. Where a
// guard is doubled on purpose, each half alone is equivalent to the product.
type mutant struct {
	name  string
	edits []edit
}

// edit is one changed text. In new, MUTANT stands for whether the mutant is the
// chosen one.
type edit struct{ file, old, new string }

const (
	fencingEpoch = "pkg/fencing/epoch.go"
	fencingAct   = "pkg/fencing/act.go"
	fencingClaim = "pkg/fencing/claim.go"
	electionTerm = "pkg/controller/election/term.go"
	election     = "pkg/controller/election/election.go"
	deployer     = "pkg/controller/deploy/deployer.go"
	deployPod    = "pkg/controller/deploy/pod.go"
	bootstrap    = "pkg/controller/deploy/bootstrap.go"
	children     = "pkg/controller/publish/children.go"
	deletion     = "pkg/controller/publish/deletion.go"
	outputs      = "pkg/controller/publish/outputs.go"
	promote      = "pkg/controller/publish/promote.go"
	receipts     = "pkg/controller/publish/publisher.go"
	retain       = "pkg/controller/publish/retain.go"
	publishStep  = "pkg/controller/publish/step.go"
	controlTerm  = "pkg/controller/term.go"
)

// mutants are the guards by which the fleet's truth is kept.
var mutants = []mutant{
	// Fencing: epochs and claims.
	{"epoch not raised by a term", []edit{{fencingEpoch,
		"	return after(l.Epoch)\n",
		"	if MUTANT {\n		return max(l.Epoch, 1), nil\n	}\n	return after(l.Epoch)\n"}, {fencingClaim,
		"	if floor := storedFloor(in);",
		"	if floor := storedFloor(in); !MUTANT &&"}}},
	{"claim below a stored epoch", []edit{{fencingClaim,
		" !t.Standalone && floor >= t.Epoch {",
		" !t.Standalone && floor >= t.Epoch && !MUTANT {"}}},
	{"old copy of the intent not adopted", []edit{{fencingClaim,
		"recorded.isFor(t.TemplateUID) && recorded.Intent.HasPlan() {",
		"recorded.isFor(t.TemplateUID) && recorded.Intent.HasPlan() && !MUTANT {"}}},
	{"claim drops the recorded output", []edit{{fencingClaim,
		"	if kept.isFor(t.TemplateUID) {\n		intent.PlanID",
		"	if kept.isFor(t.TemplateUID) && !MUTANT {\n		intent.PlanID"}}},
	// Fencing: record and check.
	{"record without the second read", []edit{{electionTerm,
		"			err = fencing.HoldsEpoch(l, t.facts())\n",
		"			if err = fencing.HoldsEpoch(l, t.facts()); MUTANT {\n				err = nil\n			}\n"}}},
	{"record without its claim", []edit{{fencingAct,
		"	if err := holdsClaim(r, t); err != nil {\n		return Intent{}, false, err\n	}\n	intent := r.Intent.Intent\n",
		"	if err := holdsClaim(r, t); err != nil && !(MUTANT && r.Exists && r.Intent.Err == nil) {\n		return Intent{}, false, err\n	}\n	intent := r.Intent.Intent\n"}}},
	{"apply after a failed record", []edit{{deployer,
		"	if err != nil {\n		d.recordFails++\n",
		"	if err != nil && !MUTANT {\n		d.recordFails++\n"}}},
	{"lease released that moved on", []edit{{election,
		"			if err := judge(record.ElectionLease(lease), t.facts()); err != nil {",
		"			if err := judge(record.ElectionLease(lease), t.facts()); err != nil && (!MUTANT || lease == nil) {"}}},
	// Publication.
	{"files written without a check", []edit{{children,
		"		if err := p.fence.Check(ctx); err != nil {",
		"		if err := p.fence.Check(ctx); err != nil && !MUTANT {"}}},
	{"output written without a check", []edit{{outputs,
		"		if err := p.fence.Check(ctx); err != nil {\n			return err\n		}\n		written, err :=",
		"		if !MUTANT {\n			if err := p.fence.Check(ctx); err != nil {\n				return err\n			}\n		}\n		written, err :="}}},
	{"status written without a check", []edit{{outputs,
		"		if err := p.fence.Check(ctx); err != nil {\n			return err\n		}\n		updated, err :=",
		"		if !MUTANT {\n			if err := p.fence.Check(ctx); err != nil {\n				return err\n			}\n		}\n		updated, err :="}}},
	{"file deleted without a check", []edit{{deletion,
		"		if err := p.fence.Check(ctx); err != nil {\n			return err\n		}\n		return k.delete",
		"		if !MUTANT {\n			if err := p.fence.Check(ctx); err != nil {\n				return err\n			}\n		}\n		return k.delete"}}},
	{"checkpoint deleted without a check", []edit{{promote,
		"	if err := p.fence.Check(ctx); err != nil {\n		return false, err\n	}\n	err = p.clients.Outputs.Delete",
		"	if !MUTANT {\n		if err := p.fence.Check(ctx); err != nil {\n			return false, err\n		}\n	}\n	err = p.clients.Outputs.Delete"}}},
	{"promotion before the receipt is stored", []edit{{retain,
		"		changed := setReferences(c, refs)\n		return setReceipt(c, s.receipt, s.encoded) || changed\n",
		"		changed := setReferences(c, refs)\n		return !MUTANT && setReceipt(c, s.receipt, s.encoded) || changed\n"}}},
	{"promotion without reading back", []edit{{retain,
		"	if verdict.State != checkpoint.Verified ||",
		"	if MUTANT {\n		return nil\n	}\n	if verdict.State != checkpoint.Verified ||"}}},
	{"collection takes referenced files", []edit{{promote,
		"		return !named[key] && p.isShared(c)\n",
		"		return (!named[key] || MUTANT) && p.isShared(c)\n"}}},
	{"collection takes promoted checkpoints", []edit{{promote,
		"		if !isPromoted(pointers, cfg) && !(",
		"		if (!isPromoted(pointers, cfg) || MUTANT) && !("}}},
	{"publication goes on while blocked", []edit{{publishStep,
		"	if !blocked {\n",
		"	if !blocked || MUTANT {\n"}, {publishStep,
		"	if blocked {\n		return ErrBlocked",
		"	if blocked && !MUTANT {\n		return ErrBlocked"}}},
	{"deletion without preconditions", []edit{{deletion,
		"	return metav1.DeleteOptions{\n",
		"	if MUTANT {\n		return metav1.DeleteOptions{PropagationPolicy: &background}\n	}\n	return metav1.DeleteOptions{\n"}}},
	// Recovery.
	{"recovery without its guard", []edit{{bootstrap,
		"	if err := o.Guard(ctx); err != nil {",
		"	if err := o.Guard(ctx); err != nil && !MUTANT {"}}},
	{"intent recorded beside recovery applies", []edit{{controlTerm,
		"	for w.recovery.Cancel(ctx) != nil {",
		"	for !MUTANT && w.recovery.Cancel(ctx) != nil {"}}},
	// Drain and receipts.
	{"drain without waiting for the deployment", []edit{{controlTerm,
		"	if err := w.deployer.Drain(ctx); err != nil {\n		logger.Info(\"Gave up waiting",
		"	if MUTANT {\n	} else if err := w.deployer.Drain(ctx); err != nil {\n		logger.Info(\"Gave up waiting"}, {controlTerm,
		"	if err := w.deployer.Drain(ctx); err != nil {\n		logger.Info(\"Gave up taking",
		"	if MUTANT {\n	} else if err := w.deployer.Drain(ctx); err != nil {\n		logger.Info(\"Gave up taking"}}},
	{"drain without publication", []edit{{controlTerm,
		"	if err := w.publisher.Flush(ctx); err != nil {",
		"	if MUTANT {\n		return\n	}\n	if err := w.publisher.Flush(ctx); err != nil {"}}},
	{"scheduled reload taken for a receipt", []edit{{deployPod,
		"	if result.Mode == api.OutcomeScheduled {",
		"	if result.Mode == api.OutcomeScheduled && !MUTANT {"}, {deployPod,
		"	if !entry.Confirms(c.Checksum, c.Output.Plan.ID) {",
		"	if !entry.Confirms(c.Checksum, c.Output.Plan.ID) && !MUTANT {"}, {receipts,
		"		if !entry.Confirms(key.checksum, key.planID) {",
		"		if !entry.Confirms(key.checksum, key.planID) && !MUTANT {"}}},
}
