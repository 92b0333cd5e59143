// Package signer signs the service account tokens of a control plane from outside, as an
// organisation does that keeps these keys in a vault: the API server asks it over a Unix socket
// (--service-account-signing-endpoint).
package signer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	externaljwt "k8s.io/externaljwt/apis/v1"
)

// KeysTTL is how long the API server may go on with the keys that it has.
const KeysTTL = time.Second

type key struct {
	id      string
	private *ecdsa.PrivateKey
	public  []byte // PKIX
}

// Signer is a running signer.
type Signer struct {
	externaljwt.UnimplementedExternalJWTSignerServer
	server *grpc.Server

	mu     sync.Mutex
	made   int
	keys   []key // the last one signs
	stamp  time.Time
	signed int
}

// Start serves on a Unix socket that is to be made.
func Start(socket string) (*Signer, error) {
	s := &Signer{server: grpc.NewServer()}
	if err := s.Rotate(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	externaljwt.RegisterExternalJWTSignerServer(s.server, s)
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// Stop ends it.
func (s *Signer) Stop() { s.server.Stop() }

// Rotate signs by a new key from now on. Tokens of the old ones stay good.
func (s *Signer) Rotate() error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	s.keys = append(s.keys, key{id: fmt.Sprintf("key-%d", s.made), private: private, public: public})
	s.stamp = time.Now()
	return nil
}

// Forget ends the trust in all keys but the one that signs. The API server hears of it within
// KeysTTL, and goes by what it remembers of a token for 10 s more.
func (s *Signer) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = s.keys[len(s.keys)-1:]
	s.stamp = time.Now()
}

// Signed says how many tokens the API server has had signed.
func (s *Signer) Signed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signed
}

// SignsBy is the id of the key that signs.
func (s *Signer) SignsBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[len(s.keys)-1].id
}

// Read gives the claims of a token and the id of the key that signed it.
func Read(token string) (claims map[string]any, keyID string, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, "", fmt.Errorf("a token of %d parts", len(parts))
	}
	var header struct {
		KeyID string `json:"kid"`
	}
	for i, into := range []any{&header, &claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return nil, "", err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return nil, "", err
		}
	}
	return claims, header.KeyID, nil
}

// Token signs claims that the API server has not seen, such as a life of seconds.
func (s *Signer) Token(claims map[string]any) (string, error) {
	text, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	payload := base64.RawURLEncoding.EncodeToString(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	header, signature, err := s.sign(payload)
	return header + "." + payload + "." + signature, err
}

// sign gives the first and the last part of a token; with the lock.
func (s *Signer) sign(payload string) (header, signature string, err error) {
	key := s.keys[len(s.keys)-1]
	header = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"ES256","kid":%q,"typ":"JWT"}`, key.id))
	hash := sha256.Sum256([]byte(header + "." + payload))
	r, t, err := ecdsa.Sign(rand.Reader, key.private, hash[:])
	if err != nil {
		return "", "", err
	}
	raw := make([]byte, 64)
	r.FillBytes(raw[:32])
	t.FillBytes(raw[32:])
	return header, base64.RawURLEncoding.EncodeToString(raw), nil
}

// Sign is called by the API server for each TokenRequest.
func (s *Signer) Sign(_ context.Context, request *externaljwt.SignJWTRequest) (*externaljwt.SignJWTResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	header, signature, err := s.sign(request.Claims)
	if err != nil {
		return nil, err
	}
	s.signed++
	return &externaljwt.SignJWTResponse{Header: header, Signature: signature}, nil
}

// FetchKeys is called by the API server when it meets a key that it does not know, and when the
// keys that it has are old.
func (s *Signer) FetchKeys(context.Context, *externaljwt.FetchKeysRequest) (*externaljwt.FetchKeysResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	response := &externaljwt.FetchKeysResponse{
		DataTimestamp:      timestamppb.New(s.stamp),
		RefreshHintSeconds: int64(KeysTTL / time.Second),
	}
	for _, key := range s.keys {
		response.Keys = append(response.Keys, &externaljwt.Key{KeyId: key.id, Key: key.public})
	}
	return response, nil
}

// Metadata is called by the API server when it starts. It takes no less than 600 s here.
func (s *Signer) Metadata(context.Context, *externaljwt.MetadataRequest) (*externaljwt.MetadataResponse, error) {
	return &externaljwt.MetadataResponse{MaxTokenExpirationSeconds: 24 * 3600}, nil
}
