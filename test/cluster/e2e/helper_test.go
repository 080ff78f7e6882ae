package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The test binary is also what runs in the pods and what asks them, so that
// the tests need nothing that may not be installed.
const (
	envServe = "E2E_SERVE" // address to serve on
	envAsk   = "E2E_ASK"   // URL to fetch
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(envServe) != "":
		err = serve(os.Getenv(envServe))
	case os.Getenv(envAsk) != "":
		err = ask(os.Getenv(envAsk))
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve is a web server that can be made ill, and that says when it is ended.
func serve(address string) error {
	var sick, busy atomic.Bool
	health := func(bad *atomic.Bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if bad.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	}
	routes := http.NewServeMux()
	routes.HandleFunc("/live", health(&sick))
	routes.HandleFunc("/ready", health(&busy))
	routes.HandleFunc("/break", func(http.ResponseWriter, *http.Request) { sick.Store(true) })
	routes.HandleFunc("/busy", func(http.ResponseWriter, *http.Request) { busy.Store(true) })
	routes.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, r.FormValue("path")) })
	routes.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		if err := os.WriteFile(r.FormValue("path"), []byte("left"), 0o600); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
		}
	})
	routes.HandleFunc("/secrets", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, listSecrets()) })
	server := &http.Server{Addr: address, Handler: routes, ReadHeaderTimeout: time.Second}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		fmt.Println("asked to end")
		_ = server.Close()
	}()
	fmt.Println("serving on", address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// listSecrets asks kube-apiserver as a pod does and answers the status code.
func listSecrets() string {
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err.Error()
	}
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return err.Error()
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: 5 * time.Second}
	request, err := http.NewRequest(http.MethodGet, "https://"+os.Getenv("KUBERNETES_SERVICE_HOST")+"/api/v1/secrets", nil)
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	return response.Status
}

func ask(url string) error {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
