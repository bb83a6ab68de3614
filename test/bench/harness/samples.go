package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Samples are metrics by name and labels, as the text format has them.
type Samples map[string]float64

// ParseSamples reads the text format. A label's value holds no space in the metrics that are read here.
func ParseSamples(text string) Samples {
	out := Samples{}
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && series != "#" {
			out[series] = n
		}
	}
	return out
}

// Sum is that of a metric over all its labels; a name may also be the beginning of a series, up to some of its labels.
func (s Samples) Sum(name string) float64 {
	sum := 0.0
	for series, n := range s {
		if series == name || strings.HasPrefix(series, name+"{") || strings.Contains(name, "{") && strings.HasPrefix(series, name) {
			sum += n
		}
	}
	return sum
}

// Scrape reads a program's metrics.
func Scrape(ctx context.Context, client *http.Client, address string) (Samples, error) {
	text, err := Get(ctx, client, "http://"+address+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return ParseSamples(string(text)), nil
}

// Get reads what a URL gives.
func Get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", url, answer.Status)
	}
	return io.ReadAll(answer.Body)
}
