package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

// Tables of the northbound database by which OVN samples, ovn-nb(5). They are there from 24.09 on.
const (
	tableSample    = "Sample"
	tableCollector = "Sample_Collector"
	tableApp       = "Sampling_App"
)

const (
	// appNew samples what ACLs decide about packets that begin connections, or are dropped.
	appNew = "acl-new"
	// always is the probability of a collector that gets every sample.
	always = 65535
	// sampledAtOnce is how many ACLs one transaction changes, and settle how long changes are left to gather before that.
	sampledAtOnce = 500
	settle        = 250 * time.Millisecond
)

// ErrNoSampling: the database's OVN is older than 24.09.
var ErrNoSampling = errors.New("this OVN cannot sample what ACLs decide: 24.09 or later can")

type sampledACL struct {
	UUID        string            `ovsdb:"_uuid"`
	Action      string            `ovsdb:"action"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	SampleNew   *string           `ovsdb:"sample_new"`
}

type sampleRow struct {
	UUID       string   `ovsdb:"_uuid"`
	Collectors []string `ovsdb:"collectors"`
	Metadata   int      `ovsdb:"metadata"`
}

type collectorRow struct {
	UUID        string `ovsdb:"_uuid"`
	ID          int    `ovsdb:"id"`
	SetID       int    `ovsdb:"set_id"`
	Probability int    `ovsdb:"probability"`
	// ExternalIDs say that it is ours.
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type appRow struct {
	UUID string `ovsdb:"_uuid"`
	Type string `ovsdb:"type"`
	ID   int    `ovsdb:"id"`
	// ExternalIDs say whether it is ours: another's serves as well, and stays.
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type epochRow struct {
	UUID        string            `ovsdb:"_uuid"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// Sampler has OVN sample what ACLs of ours decide. It writes in transactions of its own, that only change what ACLs say of
// samples: one that is refused leaves everything that decides what passes as it is.
type Sampler struct {
	Config
	// Epoch is that of who may write.
	Epoch string
	// On: ACLs are sampled, those of Networks; of all when there are none. Else none is.
	On       bool
	Networks []string
}

// Run works until ctx ends (nil), or the connection does. It ends at once when nothing is to be sampled, and nothing is.
func (s Sampler) Run(ctx context.Context) error {
	addresses, needed, err := s.find(ctx)
	if err != nil || !needed {
		return err
	}
	s.Addresses = addresses
	c, err := s.client()
	if err != nil {
		return err
	}
	defer c.Close()
	ended := make(chan struct{})
	defer close(ended)
	lost := disconnected(c, ended)
	if err := c.Connect(ctx); err != nil {
		return fmt.Errorf("connect to %s: %w", nb.DatabaseName, err)
	}
	if err := mirrorSamples(ctx, c); err != nil {
		return err
	}
	changed := wake.NewSignal()
	mirror := c.Cache()
	if mirror == nil {
		return ErrClosed
	}
	mirror.AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc: func(string, model.Model) { changed.Send() }, UpdateFunc: func(string, model.Model, model.Model) { changed.Send() },
		DeleteFunc: func(string, model.Model) { changed.Send() },
	})
	for {
		done, err := s.step(ctx, c)
		switch {
		case ctx.Err() != nil:
			// A transaction that was cut off may have been done: whoever comes next looks again.
			return nil
		case err != nil:
			return err
		case done && !s.On:
			return nil
		case !done:
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-lost:
			return ErrClosed
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
	}
}

// look reports whether anything is sampled for us. Its error is ErrNoSampling where the server's OVN cannot: a client with a
// model of what is not there would not connect.
func (s Sampler) look(ctx context.Context) (bool, error) {
	rows, err := Asker{Config: s.Config, Database: NorthboundDatabase}.Select(ctx,
		SelectRows(tableCollector, []string{"_uuid"}, Equal("id", nb.SampleCollectorID)))
	if err != nil && strings.Contains(err.Error(), "No table named "+tableCollector) {
		return false, ErrNoSampling
	}
	return err == nil && len(rows[0]) > 0, err
}

// step brings some ACLs to what they are to be; done when there are none left.
func (s Sampler) step(ctx context.Context, c client.Client) (done bool, err error) {
	ops, more, err := s.difference(ctx, c)
	if err != nil || len(ops) == 0 {
		return true, err
	}
	guard, err := s.guard(ctx, c)
	if err != nil {
		return false, err
	}
	if _, err := ask(ctx, c, append(guard, ops...)); err != nil {
		return false, fmt.Errorf("write samples of ACLs: %w", err)
	}
	return !more, nil
}

// guard makes a transaction fail unless the database is in our epoch.
func (s Sampler) guard(ctx context.Context, c client.Client) ([]ovsdb.Operation, error) {
	var globals []epochRow
	if err := c.List(ctx, &globals); err != nil {
		return nil, fmt.Errorf("read NB_Global: %w", err)
	}
	if len(globals) != 1 || globals[0].ExternalIDs[nb.KeyEpoch] != s.Epoch {
		return nil, ErrEpoch
	}
	timeout := 0
	return []ovsdb.Operation{{
		Op: ovsdb.OperationWait, Table: nb.TableGlobal.String(), Timeout: &timeout, Where: []ovsdb.Condition{
			includes("external_ids", nb.KeyEpoch, s.Epoch),
		},
		Columns: []string{"_uuid"}, Until: string(ovsdb.WaitConditionEqual), Rows: []ovsdb.Row{{"_uuid": ovsdb.UUID{GoUUID: globals[0].UUID}}},
	}}, nil
}

// find returns the addresses of the servers, and whether there is anything to do: something is to be sampled, or is.
func (s Sampler) find(ctx context.Context) (addresses []string, needed bool, err error) {
	if s.Find != nil {
		if s.Addresses, err = s.Find(ctx); err != nil {
			return nil, false, fmt.Errorf("find %s: %w", nb.DatabaseName, err)
		}
	}
	sampled, err := s.look(ctx)
	return s.Addresses, s.On || sampled, err
}

// client makes a client of the tables that the Sampler reads and writes.
func (s Sampler) client() (client.Client, error) {
	dbModel, err := model.NewClientDBModel(nb.DatabaseName, map[string]model.Model{
		nb.TableACL.String(): &sampledACL{}, tableSample: &sampleRow{}, tableCollector: &collectorRow{}, tableApp: &appRow{},
		nb.TableGlobal.String(): &epochRow{},
	})
	if err != nil {
		return nil, fmt.Errorf("build model of %s: %w", nb.DatabaseName, err)
	}
	log := logr.FromSlogHandler(s.Log.Handler())
	options := []client.Option{client.WithLogger(&log), client.WithTLSConfig(s.TLS), client.WithLeaderOnly(len(s.Addresses) > 1)}
	for _, a := range s.Addresses {
		options = append(options, client.WithEndpoint(a))
	}
	c, err := client.NewOVSDBClient(dbModel, options...)
	if err != nil {
		return nil, fmt.Errorf("set up client of %s: %w", nb.DatabaseName, err)
	}
	return c, nil
}

// mirrorSamples has the client mirror the columns that the Sampler looks at.
func mirrorSamples(ctx context.Context, c client.Client) error {
	acl, sample, collector, app, global := &sampledACL{}, &sampleRow{}, &collectorRow{}, &appRow{}, &epochRow{}
	monitor := c.NewMonitor(
		client.WithTable(acl, &acl.Action, &acl.ExternalIDs, &acl.SampleNew),
		client.WithTable(sample, &sample.Collectors, &sample.Metadata),
		client.WithTable(collector, &collector.ID, &collector.SetID, &collector.Probability, &collector.ExternalIDs),
		client.WithTable(app, &app.Type, &app.ID, &app.ExternalIDs),
		client.WithTable(global, &global.ExternalIDs),
	)
	monitor.Method = ovsdb.ConditionalMonitorRPC
	if _, err := c.Monitor(ctx, monitor); err != nil {
		return fmt.Errorf("read ACLs of %s: %w", nb.DatabaseName, err)
	}
	return nil
}

// difference is what has to be written, of at most sampledAtOnce ACLs; more when there are others.
func (s Sampler) difference(ctx context.Context, c client.Client) (ops []ovsdb.Operation, more bool, err error) {
	var acls []sampledACL
	var samples []sampleRow
	var collectors []collectorRow
	var apps []appRow
	if err := errors.Join(c.List(ctx, &acls), c.List(ctx, &samples), c.List(ctx, &collectors), c.List(ctx, &apps)); err != nil {
		return nil, false, fmt.Errorf("read samples of ACLs: %w", err)
	}
	collectors = slices.DeleteFunc(collectors, func(r collectorRow) bool { return r.ID != nb.SampleCollectorID })
	if !s.On && len(collectors) == 0 {
		return nil, false, nil
	}
	collector := ovsdb.UUID{GoUUID: newCollector}
	if len(collectors) > 0 {
		collector.GoUUID = collectors[0].UUID
	}
	if s.On {
		ops = append(ops, collecting(collectors, apps)...)
	}
	ops, changed, more := s.pointed(ops, acls, samples, collector)
	if more || s.On {
		return ops, more, nil
	}
	if changed > 0 {
		// What Samples refer to can go only when they have gone.
		return ops, true, nil
	}
	return append(ops,
		ovsdb.Operation{Op: ovsdb.OperationDelete, Table: tableCollector, Where: isRow(collector.GoUUID)},
		ovsdb.Operation{
			Op: ovsdb.OperationDelete, Table: tableApp, Where: []ovsdb.Condition{includes("external_ids", nb.KeyOwner, nb.SampleOwner)},
		}), false, nil
}

// newCollector is the name of the collector in the transaction that makes it.
const newCollector = "collector"

// collecting makes the collector and the application that samples, or mends the collector, where they are not as they should be.
func collecting(collectors []collectorRow, apps []appRow) (ops []ovsdb.Operation) {
	if len(collectors) == 0 {
		ops = append(ops, ovsdb.Operation{Op: ovsdb.OperationInsert, Table: tableCollector, UUIDName: newCollector, Row: ovsdb.Row{
			"id": nb.SampleCollectorID, "name": "atoll", "set_id": nb.SampleSet, "probability": always, "external_ids": samplesMark(),
		}})
	} else if c := collectors[0]; c.SetID != nb.SampleSet || c.Probability != always || c.ExternalIDs[nb.KeyOwner] != nb.SampleOwner {
		ops = append(ops, ovsdb.Operation{
			Op: ovsdb.OperationUpdate, Table: tableCollector, Where: isRow(c.UUID),
			Row: ovsdb.Row{"set_id": nb.SampleSet, "probability": always, "external_ids": samplesMark()},
		})
	}
	if !slices.ContainsFunc(apps, func(r appRow) bool { return r.Type == appNew }) {
		ops = append(ops, ovsdb.Operation{
			Op: ovsdb.OperationInsert, Table: tableApp,
			Row: ovsdb.Row{"type": appNew, "id": nb.SampleAppNew, "external_ids": samplesMark()},
		})
	}
	return ops
}

// pointed adds what gives ACLs their Samples, or takes these away: of at most sampledAtOnce ACLs; more when there are others.
func (s Sampler) pointed(
	ops []ovsdb.Operation, acls []sampledACL, samples []sampleRow, collector ovsdb.UUID,
) (_ []ovsdb.Operation, changed int, more bool) {
	byPoint, ours := map[int]ovsdb.UUID{}, map[string]int{}
	for _, row := range samples {
		byPoint[row.Metadata] = ovsdb.UUID{GoUUID: row.UUID}
		if slices.Contains(row.Collectors, collector.GoUUID) {
			ours[row.UUID] = row.Metadata
		}
	}
	for _, acl := range acls {
		now, sampled := 0, false
		if acl.SampleNew != nil {
			now, sampled = ours[*acl.SampleNew]
		}
		point, wanted := s.point(acl)
		if wanted && now == point || !wanted && !sampled {
			continue
		}
		if changed++; changed > sampledAtOnce {
			return ops, changed, true
		}
		var value any = ovsdb.OvsSet{GoSet: []any{}}
		if wanted {
			sample, there := byPoint[point]
			if !there {
				sample = ovsdb.UUID{GoUUID: fmt.Sprintf("sample%d", point)}
				ops = append(ops, ovsdb.Operation{Op: ovsdb.OperationInsert, Table: tableSample, UUIDName: sample.GoUUID, Row: ovsdb.Row{
					"metadata": point, "collectors": ovsdb.OvsSet{GoSet: []any{collector}},
				}})
				// Two ACLs whose UUIDs begin alike have one Sample: the database takes a number once.
				byPoint[point] = sample
			}
			value = sample
		}
		ops = append(ops, ovsdb.Operation{
			Op: ovsdb.OperationUpdate, Table: nb.TableACL.String(), Where: isRow(acl.UUID), Row: ovsdb.Row{"sample_new": value},
		})
	}
	return ops, changed, false
}

// samplesMark is the external_ids of the rows by which OVN samples for us.
func samplesMark() ovsdb.OvsMap {
	return ovsdb.OvsMap{GoMap: map[any]any{nb.KeyOwner: nb.SampleOwner}}
}

// WithdrawSamples gives the operations that remove what has OVN sample for us, where the schema has it. No ACL may refer to it any more.
func WithdrawSamples(schema ovsdb.DatabaseSchema) (ops []ovsdb.Operation) {
	for _, table := range []string{tableCollector, tableApp} {
		if schema.Table(table) != nil {
			ops = append(ops, ovsdb.Operation{
				Op: ovsdb.OperationDelete, Table: table, Where: []ovsdb.Condition{includes("external_ids", nb.KeyOwner, nb.SampleOwner)},
			})
		}
	}
	return ops
}

// point is the observation point that an ACL is to have; false for none. What a rule passes on another one decides.
func (s Sampler) point(acl sampledACL) (int, bool) {
	network := acl.ExternalIDs[nb.KeyNetwork]
	if !s.On || acl.ExternalIDs[nb.KeyOwner] == "" || acl.Action == "pass" || len(s.Networks) > 0 && !slices.Contains(s.Networks, network) {
		return 0, false
	}
	point, ok := nb.SamplePoint(acl.UUID)
	return int(point), ok
}

func isRow(uuid string) []ovsdb.Condition {
	return []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: uuid})}
}
