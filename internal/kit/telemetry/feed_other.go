//go:build !unix

package telemetry

import "os/exec"

func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func Shell(command string) []string { return []string{"cmd", "/c", command} }
