package preprocess

import "fmt"

// number is the element types of ready arrays, except bool and string.
type number interface {
	float32 | float64 | uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64
}

// convert copies a ready array to another number type. It refuses to change a value, except by rounding to
// floating point. Booleans are 0 and 1.
func convert[T number](dst []T, src any) error {
	switch s := src.(type) {
	case []T:
		copy(dst, s)
		return nil
	case []float32:
		return cast(dst, s)
	case []float64:
		return cast(dst, s)
	case []uint8:
		return cast(dst, s)
	case []int8:
		return cast(dst, s)
	case []uint16:
		return cast(dst, s)
	case []int16:
		return cast(dst, s)
	case []uint32:
		return cast(dst, s)
	case []int32:
		return cast(dst, s)
	case []uint64:
		return cast(dst, s)
	case []int64:
		return cast(dst, s)
	case []bool:
		for i, v := range s {
			dst[i] = 0
			if v {
				dst[i] = 1
			}
		}
		return nil
	}
	return fmt.Errorf("no conversion from %T to %T", src, dst)
}

func cast[T, S number](dst []T, src []S) error {
	if isFloat[S]() {
		if !isFloat[T]() {
			return fmt.Errorf("real numbers (%T) for an input of whole numbers (%T)", src, dst)
		}
		for i, v := range src {
			if dst[i] = T(v); dst[i]-dst[i] != 0 && v-v == 0 {
				return fmt.Errorf("value %v does not fit %T", v, dst[i])
			}
		}
		return nil
	}
	if isFloat[T]() {
		for i, v := range src {
			dst[i] = T(v)
		}
		return nil
	}
	for i, v := range src {
		if dst[i] = T(v); S(dst[i]) != v || (dst[i] < 0) != (v < 0) {
			return fmt.Errorf("value %v does not fit %T", v, dst[i])
		}
	}
	return nil
}

// truth copies a ready array of booleans, or of numbers 0 and 1.
func truth(dst []bool, src any) error {
	if s, ok := src.([]bool); ok {
		copy(dst, s)
		return nil
	}
	numbers := make([]uint8, len(dst))
	if err := convert(numbers, src); err != nil {
		return err
	}
	for i, v := range numbers {
		if v > 1 {
			return fmt.Errorf("value %d is neither 0 nor 1, for an input of truth values", v)
		}
		dst[i] = v == 1
	}
	return nil
}

func isFloat[T number]() bool {
	var one T = 1
	return one/2 != 0
}
