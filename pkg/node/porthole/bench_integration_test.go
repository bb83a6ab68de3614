//go:build integration

package porthole

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkEnsure measures making a porthole for three pods of both families, and adding a pod to one: how long each took, and
// the processor time of this process and of the programs that it ran.
func BenchmarkEnsure(b *testing.B) {
	k := keeper(b)
	must(b, k.EnsureHost(testHost()))
	var made, pod []time.Duration
	var making time.Duration
	n := 0
	for b.Loop() {
		spec := testSpec(fmt.Sprintf("u%d", n))
		n++
		started, used := time.Now(), processorTime(b)
		must(b, k.Ensure(spec))
		made = append(made, time.Since(started))
		making += processorTime(b) - used
		spec.Pods = append(slices.Clone(spec.Pods), testPods(9)...)
		started = time.Now()
		must(b, k.Ensure(spec))
		pod = append(pod, time.Since(started))
		b.StopTimer()
		must(b, k.Remove(spec.id()))
		b.StartTimer()
	}
	b.ReportMetric(making.Seconds()*1000/float64(n), "make-cpu-ms")
	for _, times := range []struct {
		name string
		took []time.Duration
	}{{"make", made}, {"pod", pod}} {
		slices.Sort(times.took)
		at := func(q float64) float64 {
			return float64(times.took[int(q*float64(len(times.took)-1))].Microseconds()) / 1000
		}
		b.ReportMetric(at(0.5), times.name+"-p50-ms")
		b.ReportMetric(at(0.99), times.name+"-p99-ms")
	}
}

// processorTime is what this process used, and the programs that it ran and waited for. (getrusage(2).)
func processorTime(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		must(b, unix.Getrusage(who, &u))
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

// BenchmarkRepair measures what the sweep pays for a porthole that is as it should be.
func BenchmarkRepair(b *testing.B) {
	k := keeper(b)
	must(b, k.EnsureHost(testHost()))
	must(b, k.Ensure(testSpec("u1")))
	for b.Loop() {
		must(b, k.Repair(testSpec("u1")))
	}
}

// BenchmarkMemory measures what a porthole takes of the kernel's memory and of this process', as the mean of a hundred.
// Nothing else should run.
func BenchmarkMemory(b *testing.B) {
	const many = 100
	for b.Loop() {
		k := keeper(b)
		must(b, k.EnsureHost(testHost()))
		kernel, heap := ofKernel(b), allocated()
		for n := range many {
			spec := testSpec(fmt.Sprintf("u%d", n))
			// Faces are unique in the cluster.
			for i := range spec.Pods {
				spec.Pods[i].Face = nth(spec.Pods[i].Face, n)
			}
			must(b, k.Ensure(spec))
		}
		b.ReportMetric(float64(allocated()-heap)/many/1024, "agent-KiB")
		b.ReportMetric(float64(ofKernel(b)-kernel)/many, "kernel-KiB")
		b.StopTimer()
		ids, err := k.List()
		must(b, err)
		for _, id := range ids {
			must(b, k.Remove(id))
		}
		b.StartTimer()
	}
}

// ofKernel is what the kernel holds for itself and cannot give back, in KiB. (proc_meminfo(5).)
func ofKernel(b *testing.B) int64 {
	b.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	must(b, err)
	var sum int64
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		if !slices.Contains([]string{"SUnreclaim", "Percpu", "VmallocUsed", "KernelStack", "PageTables"}, name) {
			continue
		}
		kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		must(b, err)
		sum += kib
	}
	return sum
}

// allocated is what this process holds on its heap, in bytes.
func allocated() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
