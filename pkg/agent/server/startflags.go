package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// valueFlags are HAProxy's options that take the next argument as their value.
var valueFlags = []string{"-f", "-S", "-p", "-L", "-C", "-n", "-N", "-m", "-x"}

// listFlags are followed by process IDs.
var listFlags = []string{"-sf", "-st"}

// judgingFlags change what a configuration has to be to be taken, so a check
// that is to explain a refusal needs the same ones.
var judgingFlags = []string{"-dr", "-dW"}

// peer is the process at the other end of the master's socket, zero where it
// cannot be seen: a container sees those of another one only with a shared
// process namespace.
func (s *supervisor) peer(ctx context.Context) int64 {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", s.master)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	var peer *unix.Ucred
	var peerErr error
	err = raw.Control(func(fd uintptr) { peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || peerErr != nil {
		return 0
	}
	return int64(peer.Pid)
}

// startFlags reads how the running master was started, where it can be seen.
func (s *supervisor) startFlags(ctx context.Context) ([]string, bool) {
	peer := s.peer(ctx)
	if peer == 0 {
		return nil, false
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", peer))
	if err != nil || len(cmdline) == 0 {
		return nil, false
	}
	return flagsOf(strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")), true
}

// flagsOf keeps the options and drops their values, files and process IDs.
func flagsOf(arguments []string) []string {
	flags := []string{}
	for i := 1; i < len(arguments); i++ {
		argument := arguments[i]
		switch {
		case slices.Contains(valueFlags, argument):
			i++
		case slices.Contains(listFlags, argument):
			for i+1 < len(arguments) && !strings.HasPrefix(arguments[i+1], "-") {
				i++
			}
		case strings.HasPrefix(argument, "-") && argument != "--" && !slices.Contains(flags, argument):
			flags = append(flags, argument)
		}
	}
	return flags
}

// checkFlags are those of a check that judges as the master does. A master that
// cannot be seen is taken to be started as the manifests say.
func checkFlags(flags []string, known bool) []string {
	if !known {
		return []string{"-dr"}
	}
	kept := []string{}
	for _, flag := range judgingFlags {
		if slices.Contains(flags, flag) {
			kept = append(kept, flag)
		}
	}
	return kept
}
