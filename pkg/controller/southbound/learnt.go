package southbound

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// Learnt tells of rows that nodes add to the southbound database, as many as they like: OVN's role bounds no number.
type Learnt struct {
	// rows tells nothing until it has been counted: a process that begins to lead has not learnt thousands at once.
	rows    *prometheus.GaugeVec
	planted *prometheus.CounterVec
}

// NewLearnt makes metrics and registers them.
func NewLearnt(registry prometheus.Registerer) *Learnt {
	l := &Learnt{
		rows: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "atoll_southbound_neighbours",
			Help: "Rows of MAC_Binding in the southbound database, as the leader counted them last. Others tell nothing.",
		}, nil),
		planted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_southbound_planted_rows_total",
			Help: "Rows that were deleted from tables of the southbound database which nothing of Atoll's uses: a node has added them.",
		}, []string{"table"}),
	}
	for _, table := range ovsdb.UnusedTables() {
		l.planted.WithLabelValues(table)
	}
	registry.MustRegister(l.rows, l.planted)
	return l
}

// look deletes what a node has added to tables that nothing uses, and counts neighbours.
func (s *Sweeper) look(ctx context.Context, table *ovsdb.ChassisTable) error {
	planted, err := table.ClearUnused(ctx)
	if err != nil {
		return err
	}
	for name, rows := range planted {
		if rows > 0 {
			s.Log.Warn("a node has added rows to a table of the southbound database that nothing uses: they are deleted", "table", name, "rows",
				rows)
		}
		s.Learnt.planted.WithLabelValues(name).Add(float64(rows))
	}
	rows, err := ovsdb.Asker{Config: s.Southbound, Database: ovsdb.SouthboundDatabase}.CountRows(ctx, ovsdb.TableNeighbours)
	if err != nil {
		return fmt.Errorf("count neighbours: %w", err)
	}
	s.Learnt.rows.WithLabelValues().Set(float64(rows))
	return nil
}
