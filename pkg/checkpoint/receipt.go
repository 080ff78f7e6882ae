package checkpoint

import "fmt"

// Modes by which a pod may have come to run an output. A scheduled reload has
// not happened yet, and a rejected one never will.
var confirmingModes = map[string]bool{"reload": true, "runtime": true, "file_only": true, "noop": true}

// doubt says why the entry is no receipt, or nothing.
func (e PodEntry) doubt(checksum, planID string) string {
	switch {
	case e.PodName == "" || e.PodUID == "" || e.PodRuntimeID == "":
		return "pod name, UID or runtime ID is empty"
	case checksum == "" || e.Checksum != checksum:
		return fmt.Sprintf("checksum: expected %s, found %s", shown(checksum), shown(e.Checksum))
	case planID == "" || e.AppliedPlanID != planID:
		return fmt.Sprintf("appliedPlanID: expected %s, found %s", shown(planID), shown(e.AppliedPlanID))
	case e.RunningPlanID == "":
		return "runningPlanID is empty"
	case e.RunningPlanID != planID && e.WorkerOpsPlanID != planID:
		return fmt.Sprintf("runningPlanID and workerOpsPlanID: expected one of them to be %s, found %s and %s",
			shown(planID), shown(e.RunningPlanID), shown(e.WorkerOpsPlanID))
	case e.LastError != "":
		return "lastError is not empty"
	case !confirmingModes[e.Mode]:
		return fmt.Sprintf("mode %s proves nothing", shown(e.Mode))
	}
	return ""
}

// receipt is the first entry that confirms the output.
func receipt(entries []PodEntry, checksum, planID string) *PodEntry {
	for i := range entries {
		if entries[i].Confirms(checksum, planID) {
			found := entries[i]
			return &found
		}
	}
	return nil
}
