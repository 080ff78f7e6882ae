package acceptance

import "testing"

// suite are the tests by their names in ADR-0033.
var suite = []struct {
	name string
	run  func(t *testing.T)
}{
	{"TestRetainedConfigurationRecovery", TestRetainedConfigurationRecovery},
	{"TestRetainedConfigurationSuddenFailover", TestRetainedConfigurationSuddenFailover},
	{"TestRetainedConfigurationFreshness", TestRetainedConfigurationFreshness},
	{"TestRetainedConfigurationTampering", TestRetainedConfigurationTampering},
	{"TestRetainedConfigurationChecksCurrentHAProxy", TestRetainedConfigurationChecksCurrentHAProxy},
	{"TestRetainedConfigurationAfterRecentDeployment", TestRetainedConfigurationAfterRecentDeployment},
	{"TestLeaderChangeReloadsNothing", TestLeaderChangeReloadsNothing},
}

// TestAllAcceptanceParallel runs all of them side by side in one cluster.
func TestAllAcceptanceParallel(t *testing.T) {
	for _, tc := range suite {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.run(t)
		})
	}
}
