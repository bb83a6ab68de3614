package kube

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventsAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance()
		one := said{uid: "u", reason: "SubnetFull", message: "a is full"}
		if !a.take("red", one) || a.take("red", one) {
			t.Error("said twice at once")
		}
		if !a.take("red", said{uid: "v", reason: one.reason, message: one.message}) {
			t.Error("not said of another pod")
		}
		<-time.After(repeatEvents) // in the bubble, at once
		if !a.take("red", one) {
			t.Error("not said again after some minutes")
		}
	})
}

// flood says so many different things in a namespace, and counts what was let through.
func flood(a *allowance, namespace string, n int) int {
	passed := 0
	for i := range n {
		if a.take(namespace, said{uid: fmt.Sprint(namespace, i), message: "no"}) {
			passed++
		}
	}
	return passed
}

func TestNamespacesDoNotSilenceEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance()
		first := said{uid: "blue0", message: "no"}
		if !a.take("blue", first) {
			t.Fatal("blue may not speak")
		}
		if got := flood(a, "red", 10*rememberEvents); got != shareEventsBurst {
			t.Errorf("red said %d things at once, want %d", got, shareEventsBurst)
		}
		if a.take("blue", first) {
			t.Error("red's many Events made blue's be repeated")
		}
		if got := flood(a, "blue", 20); got != 19 { // the first is said already
			t.Errorf("blue said %d things beside red, want 19", got)
		}
		<-time.After(time.Minute)
		if got := flood(a, "red", 10*rememberEvents); got < 59 || got > 61 {
			t.Errorf("red said %d things a minute later, want about 60", got)
		}
	})
}

func TestRecentForgetsTheOldestFirst(t *testing.T) {
	r := recent[int, int]{size: 10}
	for i := range 1000 {
		r.put(i, i)
		if _, there := r.get(0); !there {
			t.Fatalf("0 was used at every step and is forgotten after %d", i)
		}
		for j := max(0, i-r.size/2); j <= i; j++ {
			if v, there := r.get(j); !there || v != j {
				t.Fatalf("%d is forgotten after %d", j, i)
			}
		}
		if held := len(r.young) + len(r.old); held > 2*r.size {
			t.Fatalf("%d are held", held)
		}
	}
}

func TestRecentHoldsAtLeastItsSize(t *testing.T) {
	r := recent[int, int]{size: 10}
	for i := range 1000 {
		r.put(i, i)
		if _, there := r.old[max(0, i-r.size+1)]; !there {
			if _, there = r.young[max(0, i-r.size+1)]; !there {
				t.Fatalf("%d is forgotten after %d", max(0, i-r.size+1), i)
			}
		}
	}
}
