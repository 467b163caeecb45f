package cli

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts run this very binary as assay.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"assay": func() { os.Exit(Main(System())) },
	})
}

// TestScripts runs whole commands, as written in testdata/script/*.txt. Besides
// testscript's own commands there are
//
//	freeport VAR          sets $VAR to a free port
//	get URL [STATUS]      prints what URL answers, once it is STATUS (200)
//	post URL FILE         prints the status and what URL answers to FILE
//
// and $SEEDLING, the folder of the built-in model in other formats. They are skipped
// with -short, as under the race detector: the programs that they run would take an
// hour.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("whole programs")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"freeport": scriptFreePort,
			"get":      scriptGet,
			"post":     scriptPost,
		},
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			dir, err := filepath.Abs("../../models/seedling/formats")
			e.Setenv("SEEDLING", dir)
			return err
		},
	})
}

func scriptFreePort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeport VAR")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ts.Check(l.Close())
	ts.Setenv(args[0], port)
}

func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: get URL [STATUS]")
	}
	want := "200"
	if len(args) == 2 {
		want = args[1]
	}
	last := "nothing"
	for range 6000 {
		if resp, err := http.Get(args[0]); err != nil {
			last = err.Error()
		} else {
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			ts.Check(err)
			if last = fmt.Sprint(resp.StatusCode); last == want {
				fmt.Fprintf(ts.Stdout(), "%s", body)
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s never answered %s; last: %s", args[0], want, last)
}

func scriptPost(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: post URL FILE")
	}
	resp, err := http.Post(args[0], "application/json", strings.NewReader(ts.ReadFile(args[1])))
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d\n%s", resp.StatusCode, body)
}
