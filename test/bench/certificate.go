package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	serverName    = "holdfast-apiserver." + systemNamespace + ".svc"
	servingSecret = "holdfast-apiserver-serving"
	// apiServicePath is where the aggregator keeps whom it trusts.
	apiServicePath = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.retained.haproxy-haptic.org"
	// certificateLife is much longer than any run.
	certificateLife = 24 * time.Hour
)

// certify issues the serving certificate and tells the aggregator to trust it.
// It is its own authority, for nothing else needs one here.
func (c *cluster) certify(ctx context.Context) error {
	certificate, key, err := selfSigned()
	if err != nil {
		return fmt.Errorf("issuing the serving certificate: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: servingSecret},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}
	if _, err := c.core.CoreV1().Secrets(systemNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("storing the serving certificate: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": certificate}})
	if err != nil {
		return fmt.Errorf("encoding the authority: %w", err)
	}
	err = c.core.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(apiServicePath).Body(patch).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("setting the authority of the API service: %w", err)
	}
	c.ca = certificate
	return nil
}

func selfSigned() (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: serverName},
		DNSNames:              []string{serverName},
		NotBefore:             time.Now().Add(-time.Minute),
		NotAfter:              time.Now().Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, fmt.Errorf("signing: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the key: %w", err)
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}
