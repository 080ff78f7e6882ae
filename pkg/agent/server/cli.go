package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// maxAnswerBytes bounds one answer of HAProxy's command line. A start-up log
// with thousands of warnings fits.
const maxAnswerBytes = 4 << 20

// askTimeout bounds one question; answers come from memory. Twice that, behind
// somebody else who asks, is less than a client waits for a state.
const askTimeout = 3 * time.Second

// errNotSent says that HAProxy never saw the command.
var errNotSent = errors.New("command was not sent")

// lockedAnswer is what every command on certificates says while another one is at
// work, of us or of somebody else. Nothing was done then, and a list would read
// like that of a worker without certificates.
const lockedAnswer = "currently locked"

// maxLocked is how long such an answer may be; a longer one lists something.
const maxLocked = 256

// askUnlocked is ask, again for as long as there is time while the worker's
// certificates are locked.
func askUnlocked(ctx context.Context, socket, command string) (string, error) {
	for wait := pollStart; ; wait = min(2*wait, pollMax) {
		answer, err := ask(ctx, socket, command)
		if err != nil || len(answer) > maxLocked || !strings.Contains(answer, lockedAnswer) {
			return answer, err
		}
		if err := pause(ctx, wait); err != nil {
			return "", fmt.Errorf("certificates stay locked: %w", err)
		}
	}
}

// ask sends one command and reads the answer to its end. The client's side is
// closed after the command: the master keeps a connection open otherwise, and
// reading to the end would hang. A broken connection is an error, never a short
// answer.
func ask(ctx context.Context, socket, command string) (string, error) {
	var answer []byte
	err := stream(ctx, socket, command, func(from io.Reader) (err error) {
		answer, err = io.ReadAll(io.LimitReader(from, maxAnswerBytes+1))
		if err == nil && len(answer) > maxAnswerBytes {
			err = fmt.Errorf("exceeds %d bytes", maxAnswerBytes)
		}
		return err
	})
	return string(answer), err
}

// stream is ask for an answer that may be larger than what is worth holding.
func stream(ctx context.Context, socket, command string, read func(io.Reader) error) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return fmt.Errorf("%w: %w", errNotSent, err)
		}
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	name, _, _ := strings.Cut(command, "\n") // a payload may be a private key
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return fmt.Errorf("sending %q: %w", name, err)
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return fmt.Errorf("closing after %q: %w", name, err)
	}
	if err := read(conn); err != nil {
		return fmt.Errorf("reading answer to %q: %w", name, err)
	}
	return nil
}
