package folder

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// ErrNotFinite says that a number of a manifest is NaN or infinite.
var ErrNotFinite = errors.New("a number is not finite")

// Finite returns an error that names the first field of a manifest that is NaN or infinite.
func Finite(manifest any) error { return finite(reflect.ValueOf(manifest), "") }

func finite(v reflect.Value, field string) error {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%w: %s is %v", ErrNotFinite, field, f)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return finite(v.Elem(), field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := finite(v.Index(i), fmt.Sprintf("%s[%d]", field, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			switch {
			case options == "inline":
				name = field
			case field != "":
				name = field + "." + name
			}
			if err := finite(v.Field(i), name); err != nil {
				return err
			}
		}
	}
	return nil
}
