// Command assay-nvml reads NVIDIA's GPUs through the driver's own library and
// prints what it reads, a line of JSON each time, for assay to read over a pipe.
// It is a program of its own because it has to load a shared library, which the
// static binary can't. The lines are described in internal/kit/telemetry/nvml.
//
// Usage: assay-nvml [-every 100ms] [-library PATH]
//
// Energy and power are read each time, the rest once a second. A newline on
// standard input asks for a reading at once; at the end of standard input the
// program ends.
//
// EXIT STATUS: 0 it was told to end; 1 the library can't be used, the reason is
// in the first line; 2 usage.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"assay/internal/kit/telemetry/nvml"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, func() { os.Exit(0) }))
}

// slow is the time between readings of what changes slowly or costs the driver
// more.
const slow = time.Second

// run does all of the program's work; quit ends it from within.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, quit func()) int {
	flags := flag.NewFlagSet("assay-nvml", flag.ContinueOnError)
	flags.SetOutput(stderr)
	every := flags.Duration("every", 100*time.Millisecond, "time between readings of energy and power")
	library := flags.String("library", "", "path of NVIDIA's management library (default: the loader finds it)")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *every < time.Millisecond || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "assay-nvml: want -every of at least 1ms and no arguments")
		return 2
	}
	out := json.NewEncoder(stdout)
	lib, err := openLibrary(*library)
	if err != nil {
		_ = out.Encode(nvml.Hello{Protocol: nvml.Protocol, Library: *library, Error: err.Error()})
		return 1
	}
	defer lib.close()
	boards, hello := lib.boards()
	if err := out.Encode(hello); err != nil || hello.Error != "" {
		return 1
	}
	watch(boards, *every, stdin, out, quit)
	return 0
}

// watch prints a tick each period and whenever it is asked, until stdin ends or
// nobody reads any more.
func watch(boards []board, every time.Duration, stdin io.Reader, out *json.Encoder, quit func()) {
	ask, end := make(chan struct{}, 1), make(chan struct{})
	go func() {
		in := bufio.NewReader(stdin)
		for {
			if _, err := in.ReadString('\n'); err != nil {
				close(end)
				// A driver whose GPU is lost may never return from a call.
				time.AfterFunc(time.Second, quit)
				return
			}
			select {
			case ask <- struct{}{}:
			default: // it is asked already
			}
		}
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var lastSlow time.Time
	for {
		all := time.Since(lastSlow) >= slow
		select {
		case <-tick.C:
		case <-ask:
			all = true
		case <-end:
			return
		}
		if all {
			lastSlow = time.Now()
		}
		t := nvml.Tick{MonoNS: monotonic()}
		for i := range boards {
			t.GPUs = append(t.GPUs, boards[i].read(all))
		}
		if out.Encode(t) != nil {
			return
		}
	}
}
