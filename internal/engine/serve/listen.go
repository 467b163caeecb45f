package serve

import (
	"context"
	"log"
	"net"
	"net/http"
	"time"

	"assay/internal/engine"
)

// Run answers on l until ctx ends and everything is over.
//
// The listener answers 503 while load works. When ctx ends, no new connection
// is taken and the requests in work get drain to finish; those that are left
// then, or when the context of hurry ends, are cut off. hurry is called when
// the drain begins. A failed load is returned; an end that was asked for is nil,
// and context.Canceled when it was hurried. The engine is closed, and so is l.
func (s *Server) Run(
	ctx context.Context, hurry func() (context.Context, context.CancelFunc),
	l net.Listener, drain time.Duration,
	load func(context.Context) (*engine.Engine, error),
) error {
	// Requests outlive ctx, by the drain.
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 16,
		BaseContext:       func(net.Listener) context.Context { return work },
		ErrorLog:          log.New(s.config.Log, "assay serve: ", 0),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	stop := func() {
		cut()
		_ = server.Close() // the listener's error: it is not needed any more
		<-served
		for s.metrics.inFlight() > 0 { // each ends within a token
			time.Sleep(time.Millisecond)
		}
	}

	s.logf("http://%s answers 503 until the model is loaded", l.Addr())
	e, err := load(ctx)
	if err != nil {
		stop()
		if ctx.Err() != nil {
			s.logf("stopped while loading")
			return nil
		}
		return err
	}
	urged, release := context.WithoutCancel(ctx), context.CancelFunc(func() {})
	defer func() {
		_ = e.CloseWithin(urged) // of memory: nothing is lost
		release()
	}()
	s.SetEngine(e)
	o, info := e.Options(), e.Info()
	s.logf("threads %d (%d workers + the caller), context %d, slots %d, model %s %s", o.Threads, o.Threads-1, o.Context, o.Slots, info.Name, info.FileType)
	if o.Drafts > 0 {
		s.logf("drafts: up to %d tokens a round, by %s, each at least %g likely", o.Drafts, o.Drafter, o.DraftMinP)
	}
	s.logExperts(e)
	s.logReuse(o)
	s.logf("listening on http://%s", l.Addr())

	select {
	case err := <-served: // the listener broke
		served <- err
		stop()
		return err
	case <-ctx.Done():
	}
	urged, release = hurry()
	limit, done := context.WithTimeout(urged, drain)
	defer done()
	s.logf("stopping: %d requests in work, %v to finish them", s.metrics.inFlight(), drain)
	if server.Shutdown(limit) == nil {
		<-served
		s.logf("stopped")
		return nil
	}
	s.logf("stopped: %d requests cut off", s.metrics.inFlight())
	stop()
	return urged.Err()
}
