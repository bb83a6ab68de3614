package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// kernelHasSCTP reports whether a socket of SCTP can be had: a kernel that is built without CONFIG_IP_SCTP has none.
func kernelHasSCTP() (bool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ESOCKTNOSUPPORT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open socket of SCTP: %w", err)
	}
	return true, unix.Close(fd)
}

// standIn builds the program that stands before upstream's agnhost and speaks SCTP, if the kernel does not, and keeps it in the
// cache under a name that changes with its content. Its path is empty when none is needed.
func standIn(ctx context.Context, source, cache string) (string, error) {
	if has, err := kernelHasSCTP(); has || err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make cache: %w", err)
	}
	scratch, err := os.MkdirTemp(dir, ".sctp-*")
	if err != nil {
		return "", fmt.Errorf("make cache: %w", err)
	}
	defer os.RemoveAll(scratch)
	built := filepath.Join(scratch, "agnhost")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", built, "./test/conformance/agnhost")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build agnhost with SCTP: %w\n%s", err, text)
	}
	content, err := os.ReadFile(built)
	if err != nil {
		return "", fmt.Errorf("read agnhost with SCTP: %w", err)
	}
	sum := sha256.Sum256(content)
	path := filepath.Join(dir, fmt.Sprintf("agnhost-sctp-%x", sum[:6]))
	if err := os.Rename(built, path); err != nil {
		return "", fmt.Errorf("keep agnhost with SCTP: %w", err)
	}
	return path, nil
}
