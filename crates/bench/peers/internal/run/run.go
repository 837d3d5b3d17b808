// Package run measures a client: two batches to warm up, then the clock and the process's CPU over the rest.
package run

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Order is what a client is told.
type Order struct {
	URL, Table, Rows string
	Batches          int
	Compressed       bool
}

const warmUp = 2

// Parse reads the arguments.
func Parse() Order {
	var order Order
	flag.StringVar(&order.URL, "url", "", "the server")
	flag.StringVar(&order.Table, "table", "", "the table")
	flag.StringVar(&order.Rows, "rows", "", "the file of rows")
	flag.IntVar(&order.Batches, "batches", 1, "batches that are measured")
	flag.BoolVar(&order.Compressed, "compressed", false, "compress blocks by LZ4")
	flag.Parse()
	return order
}

// Measure sends the batches and prints what they took, as one line of JSON.
func Measure(order Order, rows int, send func(batch int) error) error {
	for n := range warmUp {
		if err := send(n); err != nil {
			return fmt.Errorf("batch %d: %w", n, err)
		}
	}
	began, before := time.Now(), used()
	for n := range order.Batches {
		if err := send(warmUp + n); err != nil {
			return fmt.Errorf("batch %d: %w", warmUp+n, err)
		}
	}
	wall, after := time.Since(began), used()
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"rows":          rows * order.Batches,
		"wall_s":        wall.Seconds(),
		"user_s":        seconds(after.Utime) - seconds(before.Utime),
		"system_s":      seconds(after.Stime) - seconds(before.Stime),
		"rss_bytes_max": after.Maxrss * 1024,
	})
}

// Fail ends the process with the reason.
func Fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func used() syscall.Rusage {
	var usage syscall.Rusage
	Fail(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
