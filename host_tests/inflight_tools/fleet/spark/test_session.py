"""Spark properties."""


def test_options_keep_their_names(spark):
    assert spark.conf.get("spark.executorEnv.OF_TESTS") == "1"
