package main

import "context"

// layerNames name the layers of a posterior.
var layerNames = []string{"last layer", "top two layers", "all three layers"}

func table2Trials() []trial {
	var trials []trial
	for _, method := range []struct{ row, method string }{{"M=50", "mc:50"}, {"mf0", "mf0"}} {
		for layers, name := range layerNames {
			t := trial{row: method.row + ", " + name, method: method.method}
			if method.row != "mf0" {
				t.paper = "M=500, " + name
			}
			t.maxNetworks = someNetworks
			if layers > 0 { // the last layer's posterior is the bundle's
				t.layers = layers + 1
				t.note = "one Kronecker-factored block per layer"
			}
			trials = append(trials, t)
		}
	}
	return trials
}

func measureTable2(ctx context.Context, l *lab, s *section) error {
	return l.measureMNIST(ctx, s, "2", table2Trials())
}

func writeTable2(s *section) {
	s.write("The paper's numbers below M = 50 are those of M = 500.")
	s.write("%s", render(s.of("2", mnistName, table2Trials()), mnistColumns()...))
}
