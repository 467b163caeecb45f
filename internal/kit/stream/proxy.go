package stream

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// proxyFor is the environment's proxy for u, nil when u is on this machine: a
// proxy in between would make a loopback figure meaningless.
func proxyFor(ctx context.Context, u *url.URL) (*url.URL, error) {
	if onThisMachine(u.Hostname()) {
		return nil, nil
	}
	p, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil || p == nil {
		return nil, err
	}
	// A name such as the machine's own may lead to loopback too; it is found in
	// the hosts file at once. A name that is not is the proxy's to resolve.
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if addrs, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()); err == nil && len(addrs) > 0 {
		loopback := true
		for _, a := range addrs {
			loopback = loopback && onThisMachine(a)
		}
		if loopback {
			return nil, nil
		}
	}
	if p.Scheme != "http" {
		return nil, fmt.Errorf("proxy %s: only http:// proxies are supported; unset it or add the server to NO_PROXY", p.Redacted())
	}
	return p, nil
}

func onThisMachine(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// address is u's host and port, the scheme's port when it names none.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func proxyAuthorization(p *url.URL) string {
	if p.User == nil {
		return ""
	}
	password, _ := p.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(p.User.Username()+":"+password))
}

// connect asks a proxy to pass bytes through to addr.
func connect(ctx context.Context, conn net.Conn, proxy *url.URL, addr string) error {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if a := proxyAuthorization(proxy); a != "" {
		req.Header.Set("Proxy-Authorization", a)
	}
	if err := req.Write(conn); err != nil {
		return fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	// Under TLS the client speaks first, so nothing can follow the answer that
	// this reader would swallow.
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	// The response has no body, but Close would read one, up to the connection's
	// end: so it is left alone.
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("proxy %s: CONNECT %s: %s", proxy.Host, addr, resp.Status)
	}
	return nil
}
