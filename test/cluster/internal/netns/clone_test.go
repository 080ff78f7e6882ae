package netns

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestHintsNameTheSwitchThatForbids(t *testing.T) {
	tests := []struct {
		name    string
		uid     int
		sysctls map[string]string
		want    string
	}{
		{name: "Debian's switch", uid: 1000, sysctls: map[string]string{"kernel.unprivileged_userns_clone": "0"}, want: "kernel.unprivileged_userns_clone=1"},
		{name: "Ubuntu's switch", uid: 1000, sysctls: map[string]string{"kernel.apparmor_restrict_unprivileged_userns": "1"}, want: "kernel.apparmor_restrict_unprivileged_userns=0"},
		{name: "a limit of zero", uid: 1000, sysctls: map[string]string{"user.max_user_namespaces": "0"}, want: "user.max_user_namespaces=1024"},
		{name: "no switch is off: probably a container", uid: 0, sysctls: map[string]string{"user.max_user_namespaces": "9"}, want: "--privileged"},
		{name: "root needs no user namespace", uid: 0, sysctls: map[string]string{"kernel.unprivileged_userns_clone": "0"}, want: "--privileged"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			read := func(name string) (string, bool) { value, ok := tc.sysctls[name]; return value, ok }
			if got := strings.Join(hints(read, tc.uid), "\n"); !strings.Contains(got, tc.want) {
				t.Errorf("hints do not name %q:\n%s", tc.want, got)
			}
		})
	}
}

func TestExplainTurnsRefusalsIntoAdvice(t *testing.T) {
	var forbidden *ForbiddenError
	if err := Explain(fmt.Errorf("fork: %w", syscall.EPERM)); !errors.As(err, &forbidden) || !errors.Is(err, syscall.EPERM) {
		t.Errorf("Explain(EPERM) answered %v, want a ForbiddenError that keeps its cause", err)
	}
	other := errors.New("disk full")
	if err := Explain(other); err != other {
		t.Errorf("Explain(%v) answered %v, want it unchanged", other, err)
	}
}
