package registry

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Column is one column of a table. A cell must cope with an empty view,
// because bookmarks become rows too.
type Column[P any] struct {
	metav1.TableColumnDefinition
	Cell func(view P) any
}

// Narrow returns a column that is always shown.
func Narrow[P any](name, description string, cell func(view P) any) Column[P] {
	return Column[P]{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: name, Type: "string", Description: description},
		Cell:                  cell,
	}
}

// Wide returns a column that is shown with "-o wide".
func Wide[P any](name, description string, cell func(view P) any) Column[P] {
	column := Narrow(name, description, cell)
	column.Priority = 1
	return column
}

// NameColumn shows metadata.name. Its format lets kubectl add the resource.
func NameColumn[P metav1.Object]() Column[P] {
	column := Narrow("Name", "Name of the object.", func(view P) any { return view.GetName() })
	column.Format = "name"
	return column
}

// AgeColumn shows the age of the stored object. Only tables have ages: an age
// in an object would change it all the time.
func AgeColumn[P metav1.Object]() Column[P] {
	return Narrow("Age", "Time since the stored object was created.", func(view P) any {
		return metatable.ConvertToHumanReadableDateType(view.GetCreationTimestamp())
	})
}

// ConditionCell shows the status of a condition: True, False or Unknown.
func ConditionCell(conditions []metav1.Condition, conditionType string) any {
	if condition := meta.FindStatusCondition(conditions, conditionType); condition != nil {
		return string(condition.Status)
	}
	return ""
}

// ReasonCell shows why a condition is what it is.
func ReasonCell(conditions []metav1.Condition, conditionType string) any {
	if condition := meta.FindStatusCondition(conditions, conditionType); condition != nil {
		return condition.Reason
	}
	return ""
}

// ConvertToTable accepts a view, a list of them, or a bookmark.
func (s *Storage[V, P]) ConvertToTable(_ context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{Rows: []metav1.TableRow{}}
	addRow := func(obj runtime.Object) error {
		view, ok := obj.(P)
		if !ok {
			return fmt.Errorf("a %T cannot be shown as a %s", obj, s.kind.Singular)
		}
		row := metav1.TableRow{Object: runtime.RawExtension{Object: obj}, Cells: make([]any, 0, len(s.kind.Columns))}
		for _, column := range s.kind.Columns {
			row.Cells = append(row.Cells, column.Cell(view))
		}
		table.Rows = append(table.Rows, row)
		return nil
	}

	if meta.IsListType(object) {
		if err := meta.EachListItem(object, addRow); err != nil {
			return nil, err
		}
	} else if err := addRow(object); err != nil {
		return nil, err
	}
	if common, err := meta.CommonAccessor(object); err == nil {
		table.ResourceVersion = common.GetResourceVersion()
	}

	if opts, ok := tableOptions.(*metav1.TableOptions); !ok || !opts.NoHeaders {
		for _, column := range s.kind.Columns {
			table.ColumnDefinitions = append(table.ColumnDefinitions, column.TableColumnDefinition)
		}
	}
	return table, nil
}
