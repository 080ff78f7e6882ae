package httpsource

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// hidden stands for the query of a URL in messages.
const hidden = "?…"

// display is a URL as messages may show it.
func display(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "an unreadable URL"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	out := shown.String()
	if u.RawQuery != "" {
		out += hidden
	}
	return out
}

var (
	userInfo = regexp.MustCompile(`//[^/\s@"']*@`)
	query    = regexp.MustCompile(`\?[^\s"']*`)
	// ownPort is the port of this side of a connection, which differs from
	// attempt to attempt and would make news of every one.
	ownPort = regexp.MustCompile(`\b(tcp[46]?|udp[46]?) \S+->`)
)

// scrub makes the text of a failed request fit to be told: without the URL that
// net/http wraps around it, and without credentials of any other URL in it.
func scrub(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	for {
		var wrapped *url.Error
		if !errors.As(err, &wrapped) {
			break
		}
		err = wrapped.Err
	}
	text := userInfo.ReplaceAllString(err.Error(), "//")
	text = query.ReplaceAllString(text, hidden)
	text = ownPort.ReplaceAllString(text, "$1 ")
	if len(text) > maxCauseBytes {
		text = strings.ToValidUTF8(text[:maxCauseBytes], "") + " …"
	}
	return errors.New(text)
}

// maxCauseBytes bounds what is told of a failure: parts of it can be the
// server's words.
const maxCauseBytes = 512
