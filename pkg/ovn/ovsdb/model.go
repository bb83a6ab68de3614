package ovsdb

import (
	"fmt"
	"reflect"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// mirrored are the row types that we read: those that we write and NB_Global's.
func mirrored() []nb.Row {
	rows := []nb.Row{&nb.Global{}}
	for _, t := range nb.Tables() {
		rows = append(rows, t.New())
	}
	return rows
}

// clientModel is the database model of a client that reads them.
func clientModel() (model.ClientDBModel, error) {
	models := map[string]model.Model{}
	for _, row := range mirrored() {
		models[row.Table().String()] = row
	}
	m, err := model.NewClientDBModel(nb.DatabaseName, models)
	if err != nil {
		return m, fmt.Errorf("build model of %s: %w", nb.DatabaseName, err)
	}
	return m, nil
}

// columnsOnly asks the monitor for the columns that the row types have, and no others: libovsdb drops an
// update that names a column which it does not know.
func columnsOnly() []client.MonitorOption {
	var options []client.MonitorOption
	for _, row := range mirrored() {
		var fields []any
		v := reflect.ValueOf(row).Elem()
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("ovsdb") != "_uuid" {
				fields = append(fields, v.Field(i).Addr().Interface())
			}
		}
		options = append(options, client.WithTable(row, fields...))
	}
	return options
}
