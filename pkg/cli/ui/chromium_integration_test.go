//go:build integration

package ui

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	devtools "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sandbox/parts"
	"github.com/atoll-net/atoll/test/wait"
)

var update = flag.Bool("update", false, "make the pictures of docs anew")

// browserPatience is how long a step in the browser may take: the machine may be busy.
const browserPatience = time.Minute

// tab is a page in a real browser.
type tab struct {
	t   *testing.T
	ctx context.Context
	// complaints are what the browser's console has.
	mu         sync.Mutex
	complaints []string
}

// openTab shows the page of a source in Chromium, as who follows the printed address sees it.
func openTab(t *testing.T, source Source) *tab {
	t.Helper()
	program, err := parts.GatherBrowser(t.Context(), parts.Need{Cache: sandbox.DefaultCache}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(l, Config{Source: source, Timeout: time.Minute, Offer: func(a string) { t.Errorf("it offers %s", a) }})
	if err != nil {
		t.Fatal(err)
	}
	serving, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(serving) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	browsing, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()),
		chromedp.ExecPath(program.Program), chromedp.Env(program.Environment...), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1440,
			900),
		// As root there is no sandbox of Chromium's own. It loads nothing but the page.
		chromedp.Flag("headless", true), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.WSURLReadTimeout(browserPatience))
	t.Cleanup(stop)
	ctx, shut := chromedp.NewContext(browsing)
	b := &tab{t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.complaints = append(b.complaints, fmt.Sprintf("%s: %s %s:%d", m.Type, m.Text, m.URL, m.Line))
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() { shut(); <-heard })
	b.do("open the page", chromedp.Navigate(s.Address()))
	b.until("the map is drawn", `document.getElementById("graph").dataset.drawn !== undefined`)
	value[bool](b, refusals)
	return b
}

// refusals has the page keep what answers say that are no success: the console has their status alone.
const refusals = `(() => {
	const ask = window.fetch;
	window.refusals = [];
	window.fetch = async (...what) => {
		const answer = await ask(...what);
		if (!answer.ok) { window.refusals.push(await answer.clone().text()); }
		return answer;
	};
	return true;
})()`

// quiet fails the test when the browser's console has something.
func (b *tab) quiet() {
	b.t.Helper()
	if said := b.said(); len(said) > 0 {
		b.t.Errorf("the browser's console has %q; answers said %q", said, value[[]string](b, "window.refusals"))
	}
}

// do takes steps.
func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v; the console has %q", what, err, b.said())
	}
}

// until waits until an expression is true in the page.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	err := wait.For(b.ctx, browserPatience, func(ctx context.Context) error {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && !is {
			err = errors.New("it is not so")
		}
		return err
	})
	if err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		b.t.Fatalf("wait until %s: %v; the console has %q, and the page %s", what, err, b.said(), text)
	}
}

// value is what an expression gives.
func value[V any](b *tab, expression string) V {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[V](expression))
	if err != nil {
		b.t.Fatalf("look at %s: %v", expression, err)
	}
	return out
}

// evaluated is what a promise gives.
func evaluated[V any](b *tab, expression string) V {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("look at %s: %v", expression, err)
	}
	return out
}

func (b *tab) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.complaints)
}

// panel waits until the answer beside the map has all the words.
func (b *tab) panel(want ...string) {
	b.t.Helper()
	for _, w := range want {
		b.until(fmt.Sprintf("the panel says %q", w),
			fmt.Sprintf(`document.getElementById("panel").innerText.replace(/\s+/g, " ").includes(%q)`, w))
	}
}

// clickOn clicks where the map has a box or an edge, by the mouse.
func (b *tab) clickOn(id string) {
	b.t.Helper()
	at := value[[]float64](b, fmt.Sprintf(`(() => { const g = document.getElementById("graph"), e = g.cy.getElementById(%q), r = g.getBoundingClientRect();
		const p = e.isEdge() ? (({x, y}) => ({x: x * g.cy.zoom() + g.cy.pan().x, y: y * g.cy.zoom() + g.cy.pan().y}))(e.midpoint()) : e.renderedPosition();
		return [r.x + p.x, r.y + p.y]; })()`, id))
	b.do("click on "+id, chromedp.MouseClickXY(at[0], at[1]))
}

// scheme has the user like light or dark.
func (b *tab) scheme(name string) {
	b.t.Helper()
	b.do("choose "+name, chromedp.Func(func(ctx context.Context, at *chromedp.Target) error {
		_, err := cdp.Call(ctx, at, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	}))
}

// picture writes what is seen to docs, if that is wanted; it always looks, and wants more than one colour.
func (b *tab) picture(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	const least = 20_000
	if len(png) < least {
		b.t.Errorf("the picture %s has %d bytes: nothing is on it", name, len(png))
	}
	if *update {
		file := filepath.Join("..", "..", "..", "docs", "pictures", name+".png")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(file, png, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// saved is the file of the map that the page's button makes.
func (b *tab) saved() (out image.Image) {
	b.t.Helper()
	dir := b.t.TempDir()
	b.do("save the picture", chromedp.Func(func(ctx context.Context, at *chromedp.Target) error {
		_, err := cdp.Call(ctx, at, devtools.SetDownloadBehavior, devtools.SetDownloadBehaviorParams{
			Behavior: devtools.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir,
		})
		return err
	}), chromedp.Click("#save"))
	err := wait.For(b.ctx, browserPatience, func(context.Context) error {
		file, err := os.Open(filepath.Join(dir, "networks.png"))
		if err != nil {
			return err
		}
		defer file.Close()
		out, err = png.Decode(file)
		return err
	})
	if err != nil {
		b.t.Fatalf("read the picture: %v; the console has %q", err, b.said())
	}
	return out
}

// saves wants the saved picture to have all of the map at twice its size, on a ground of a colour.
func (b *tab) saves(ground color.RGBA) {
	b.t.Helper()
	picture := b.saved()
	at := value[[]float64](b, `(({w, h}) => [w, h])(document.getElementById("graph").cy.elements().boundingBox())`)
	size := picture.Bounds().Size()
	if math.Abs(float64(size.X)-2*at[0]) > 4 || math.Abs(float64(size.Y)-2*at[1]) > 4 {
		b.t.Errorf("the saved picture has %v, and the map %v", size, at)
	}
	seen := map[color.Color]int{}
	for y := range size.Y {
		for x := range size.X {
			seen[color.RGBAModel.Convert(picture.At(x, y))]++
		}
	}
	const fewest = 10
	if seen[ground] == 0 || len(seen) < fewest {
		b.t.Errorf("the saved picture has %d colours, and %d points of its ground", len(seen), seen[ground])
	}
}

// TestInABrowser: in a real browser a Network is unfolded, an address found in three Networks, an edge asked about and a way
// explained; by mouse and by keyboard, in light and dark; and the console has nothing to say. It makes the pictures of docs with
// -update.
func TestInABrowser(t *testing.T) {
	b := openTab(t, sample(t))
	b.scheme("light")
	if at := value[string](b, "location.href"); strings.Contains(at, "token") {
		t.Errorf("the address has the token: %s", at)
	}
	if cookies := value[string](b, "document.cookie"); cookies != "" {
		t.Errorf("scripts see the cookie: %s", cookies)
	}
	if n := value[int](b, `document.getElementById("graph").cy.nodes("[kind='network']").length`); n != 6 {
		t.Errorf("the map has %d Networks", n)
	}

	// By the mouse: unfold, pods, explain by an edge.
	b.clickOn("network/red")
	b.panel("Network red", "switch red/front", "NetworkPolicy/red/lock")
	b.until("red is unfolded", `document.getElementById("graph").cy.getElementById("network/red").isParent()`)
	if at := value[string](b, "location.pathname"); at != "/network/red" {
		t.Errorf("the address is %s", at)
	}
	b.do("show its pods", chromedp.Click(`#panel a[href="/network/red/pods"]`))
	b.panel("red/locked")
	b.until("pods are on the map", `document.getElementById("graph").cy.nodes("[kind='pod']").length === 6`)
	b.picture("network")
	// Two ends are chosen.
	b.do("choose ends", chromedp.Click(`#panel a[data-fill="from"][data-value="red/web-0"]`),
		chromedp.Click(`#panel a[data-fill="to"][data-value="red/locked"]`))
	b.until("the form has both",
		`document.getElementById("from").value === "red/web-0" && document.getElementById("to").value === "red/locked" && document.activeElement.id === "port"`)
	b.do("fold all", chromedp.Click("#shut"))
	b.until("all are folded", `document.getElementById("graph").cy.nodes("[kind='island']").length === 0`)
	b.saves(color.RGBA{0xfb, 0xfc, 0xfd, 0xff})
	b.clickOn(value[string](b, `document.getElementById("graph").cy.edges("[source='network/blue'][target='network/red']").id()`))
	b.panel("From Network blue to Network red", "Uses ByFace Active")
	if from := value[string](b,
		`document.getElementById("from").value + " " + document.getElementById("to").value`); from != "blue/web-0 red/web-0" {
		t.Errorf("the form has %s", from)
	}
	b.do("explain", chromedp.Click("#panel a[href^='/explain?']"))
	b.panel("Reached: blue/web-0 to red/web-0")

	// Search, in the dark.
	b.scheme("dark")
	b.saves(color.RGBA{0x12, 0x18, 0x1e, 0xff})
	b.do("search", chromedp.SetValue("#q", "10.0.0.10"), chromedp.SendKeys("#q", kb.Enter))
	b.panel("3 Networks have it", "acme-web/same", "blue/same", "red/same")
	if n := value[int](b, `document.querySelectorAll("#found tbody tr").length`); n != 3 {
		t.Errorf("%d lines are found", n)
	}
	if said := value[string](b, `document.getElementById("said").innerText`); said != "10.0.0.10 is in 3 Networks" {
		t.Errorf("a screen reader is told %q", said)
	}
	b.picture("search-dark")
	dark := value[string](b,
		`getComputedStyle(document.body).backgroundColor + document.getElementById("graph").cy.nodes("[kind='network']").style("background-color")`)
	b.scheme("light")
	light := value[string](b,
		`getComputedStyle(document.body).backgroundColor + document.getElementById("graph").cy.nodes("[kind='network']").style("background-color")`)
	if light == dark {
		t.Errorf("light and dark are both %s", light)
	}

	b.byKeyboard()
	b.picture("explain")
	b.quiet()
}

// byKeyboard explains a way, and unfolds a Network, with no mouse.
func (b *tab) byKeyboard() {
	b.t.Helper()
	b.do("begin at the top", chromedp.Evaluate[chromedp.Void](`document.querySelector(".skip").focus()`))
	var order []string
	tabTo := func(id string) {
		b.t.Helper()
		for range 60 {
			at := value[string](b, `document.activeElement.id || document.activeElement.innerText.split("\n")[0]`)
			if order = append(order, at); at == id {
				return
			}
			if seen := value[string](b, `getComputedStyle(document.activeElement).outlineStyle`); at != "" && seen == "none" {
				b.t.Errorf("nobody sees that the focus is at %s", at)
			}
			b.do("tab", chromedp.KeyEvent(kb.Tab))
		}
		b.t.Fatalf("the tabulator does not get to %s: %q", id, order)
	}
	tabTo("q")
	tabTo("from")
	all := func(text string) {
		b.do("write "+text, chromedp.Evaluate[chromedp.Void](`document.activeElement.value = ""`), chromedp.KeyEvent(text))
	}
	all("red/friend")
	tabTo("to")
	all("red/locked")
	tabTo("port")
	all("80")
	tabTo("protocol")
	b.do("choose tcp", chromedp.KeyEvent("t"))
	b.do("ask", chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.panel("Stopped: red/friend to red/locked, tcp port 80, by policy", "Next: ", "STOP")
	b.until("the focus is at the answer", `document.activeElement.matches("#panel h1")`)
	if said := value[string](b, `document.getElementById("said").innerText`); !strings.HasPrefix(said, "Stopped: ") {
		b.t.Errorf("a screen reader is told %q", said)
	}
	b.do("go to the map", chromedp.Focus("#graph"), chromedp.KeyEvent(kb.ArrowRight))
	b.until("a box is chosen, and said",
		`document.getElementById("graph").cy.elements(".chosen").length === 1 && document.getElementById("said").innerText.startsWith("Network ")`)
	first := value[string](b, `document.getElementById("graph").cy.elements(".chosen").id()`)
	b.do("open it", chromedp.KeyEvent(kb.Enter))
	b.until("it is unfolded", fmt.Sprintf(`document.getElementById("graph").cy.getElementById(%q).isParent()`, first))
	b.do("go back", chromedp.NavigateBack())
	b.panel("Stopped: red/friend to red/locked")
}
