package controlplane

import (
	"context"
	"time"
)

// Poll asks until f returns nil; the last error when the limit has passed or ctx has ended.
func Poll(ctx context.Context, limit time.Duration, f func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
