//go:build integration

package ui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// flowEdges counts edges of flows in the page whose labels have a word.
func flowEdges(word string) string {
	return fmt.Sprintf(`document.getElementById("graph").cy.edges("[kind='flow']").filter((e) => e.data("label").includes(%q)).length`, word)
}

// TestFlowsInABrowser: in a real browser edges have rate, verdict and policy; the slider, by the keyboard alone, changes them and
// the table; and an edge that is clicked, or chosen and opened by keys, is explained. The console has nothing to say.
func TestFlowsInABrowser(t *testing.T) {
	c := sample(t)
	c.flowsAt = sampleFlows
	b := openTab(t, c)
	b.scheme("light")
	b.until("flows are drawn", flowEdges("")+" === 7")
	if n := value[int](b, flowEdges("dropped")); n != 4 {
		t.Errorf("%d edges are of what was dropped", n)
	}
	// Not by colour alone.
	if looks := value[string](b,
		`document.getElementById("graph").cy.edges("[kind='flow'][state='bad']").map((e) => e.style("line-style") + " " + e.style("target-arrow-shape")).join()`); looks != strings.Join([]string{"dashed tee", "dashed tee", "dashed tee", "dashed tee"}, ",") {
		t.Errorf("what was dropped looks %s", looks)
	}
	if looks := value[string](b,
		`document.getElementById("graph").cy.edges("[kind='flow'][state='good']").map((e) => e.style("line-style") + " " + e.style("target-arrow-shape")).join()`); looks != "solid vee,solid vee,solid vee" {
		t.Errorf("what was let through looks %s", looks)
	}
	b.clickOn(value[string](b, `document.getElementById("graph").cy.edges("[kind='flow'][state='bad'][source='network/blue']").id()`))
	b.panel("From Network blue to Network red, dropped", "ClusterNetworkPolicy/quota", "From blue/web-0 to red/web-0, as it is now",
		"Reached: blue/web-0 to red/web-0")

	// Pods.
	b.do("open red", chromedp.Click(`nav.list a[href="/network/red"]`))
	b.panel("Network red", "Flows")
	b.do("show its pods", chromedp.Click(`#panel a[href="/network/red/pods"]`))
	b.panel("red/locked")
	b.until("flows are between pods",
		`document.getElementById("graph").cy.edges("[kind='flow'][target='network/red/pod/red/locked']").length === 1`)
	b.do("list flows", chromedp.Click(`nav a[href="/flows"]`))
	b.panel("to now", "red/web-0 10.0.0.2 red/db-0 10.0.1.2 tcp 5432 allow NetworkPolicy/red/db-from-web", "Between Networks")
	b.picture("flows")

	// Time, by the keyboard.
	b.do("go to the slider", chromedp.Focus("#minutes"))
	for range 17 {
		b.do("earlier", chromedp.KeyEvent(kb.ArrowLeft))
	}
	// The keys come faster than the page follows.
	for what, is := range map[string]string{
		"the slider says":       `document.getElementById("minutes").getAttribute("aria-valuetext")`,
		"beside it stands":      `document.getElementById("when").innerText`,
		"a screen reader hears": `document.getElementById("said").innerText`,
	} {
		b.until(what+" how long ago", `(`+is+` || "").includes(", 17 minutes ago")`)
	}
	b.until("edges are those of then", flowEdges("")+" === 1 && "+flowEdges("NetworkPolicy/red/lock")+" === 1")
	// On a machine that takes its time it is more than 17 minutes ago when the table comes.
	of, _, _ := strings.Cut(value[string](b, `document.getElementById("when").innerText`), ",")
	b.panel(of, " minutes ago", "red/same 10.0.0.10 red/db-0 10.0.1.2 tcp 80 drop NetworkPolicy/red/lock")
	if has := value[bool](b, `document.getElementById("panel").innerText.includes("db-from-web")`); has {
		t.Error("the table has what is now")
	}
	if said := value[string](b, `document.getElementById("said").innerText`); !strings.Contains(said, "0 connections allowed, 40 dropped") {
		t.Errorf("a screen reader is told %q", said)
	}
	if at := value[string](b, "document.activeElement.id"); at != "minutes" {
		t.Errorf("the focus has gone to %s", at)
	}
	b.do("now", chromedp.KeyEvent(kb.End))
	b.until("edges are those of now", flowEdges("")+" === 7")
	b.panel("to now")

	// An edge by the keyboard.
	b.do("fold all", chromedp.Click("#shut"), chromedp.Focus("#graph"))
	b.until("flows are drawn again", flowEdges("")+" === 7 && document.getElementById('graph').cy.nodes('[kind=\"island\"]').length === 0")
	found := false
	for range 20 {
		b.do("the one before", chromedp.KeyEvent(kb.ArrowLeft))
		// The rate depends on how many seconds of the minute have passed.
		if found = value[bool](b, `/^from Network red to Network red: .* dropped/.test(document.getElementById("said").innerText)`); found {
			break
		}
	}
	if !found {
		t.Fatalf("the keys reach no edge of what was dropped; a screen reader is told %q",
			value[string](b, `document.getElementById("said").innerText`))
	}
	b.do("open it", chromedp.KeyEvent(kb.Enter))
	b.panel("From Network red to Network red, dropped", "Stopped: red/friend to red/locked", "STOP")
	b.quiet()
}

// TestAViewerInABrowser: who may view a namespace, and get no Network, sees its pods with flows, and opens one.
func TestAViewerInABrowser(t *testing.T) {
	c := sample(t)
	c.flowsAt, c.views = sampleFlows, []string{"red"}
	b := openTab(t, namedSource{c, []string{"red", "blue"}})
	b.until("flows are drawn", flowEdges("")+" === 6")
	b.until("it says whose", `document.getElementById("flows-why").innerText === "these are the flows of pods in namespace red"`)
	if shown := value[int](b,
		`document.getElementById("graph").cy.nodes("[id ^= 'end/pod/red/']").filter((n) => { const at = n.renderedBoundingBox(); return at.x1 >= 0 && at.y1 >= 0 && at.w > 10; }).length`); shown != 5 {
		t.Errorf("%d pods are seen", shown)
	}
	b.clickOn("end/pod/red/locked")
	b.panel("Pod red/locked")
	b.quiet()
}
