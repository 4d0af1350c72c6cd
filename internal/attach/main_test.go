package attach_test

import (
	"testing"

	"github.com/mfgs/mfgs/internal/wraptest"
)

func TestMain(m *testing.M) { wraptest.Main(m, nil) }
